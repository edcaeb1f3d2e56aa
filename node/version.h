/* node/version.h - the version of this software, as text. */
#ifndef LQ_NODE_VERSION_H
#define LQ_NODE_VERSION_H

#include <lightq/lightq.h>

#define LQ_VERSION_PASTE_(major, minor, patch) #major "." #minor "." #patch
#define LQ_VERSION_PASTE(major, minor, patch)  LQ_VERSION_PASTE_(major, minor, patch)
#define LQ_VERSION_TEXT                        LQ_VERSION_PASTE(LIGHTQ_VERSION_MAJOR, LIGHTQ_VERSION_MINOR, LIGHTQ_VERSION_PATCH)

#endif
