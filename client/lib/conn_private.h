/* client/lib/conn_private.h - what conn.c (life, times) and conn_message.c (what goes over it) do for each other. */
#ifndef LQ_LIB_CONN_PRIVATE_H
#define LQ_LIB_CONN_PRIVATE_H

#include "client/lib/conn.h"

/* conn_message.c: send HELLO or a heartbeat. */
void lq_conn_hello(struct lq_conn *conn);
void lq_conn_heartbeat(struct lq_conn *conn);

/* conn.c: the server has greeted us, or refused to. */
void lq_conn_ready(struct lq_conn *conn);
void lq_conn_refuse(struct lq_conn *conn, lightq_status status, const char *text);

#endif
