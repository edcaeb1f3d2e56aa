# Finds the libraries LightQ stands on and says in one sentence what to do when one is missing.
find_package(PkgConfig REQUIRED)
find_package(Threads REQUIRED)

# lq_dependency(target pkgconfig-name): an imported target PkgConfig::<target>, or a stop with the remedy.
function(lq_dependency target name)
    pkg_check_modules(${target} QUIET IMPORTED_TARGET GLOBAL ${name})
    if(NOT ${target}_FOUND)
        message(FATAL_ERROR "The library ${name} was not found. Run deploy/deps.sh, which installs all that LightQ needs.")
    endif()
endfunction()

lq_dependency(ISAL libisal)
lq_dependency(PROTOBUF_C libprotobuf-c)
lq_dependency(JANSSON jansson)
lq_dependency(XXHASH libxxhash)
lq_dependency(LZ4 liblz4)
lq_dependency(ZSTD libzstd)
find_program(PROTOC_C protoc-c REQUIRED)

if(LIGHTQ_NODE)
    lq_dependency(UV libuv)
    lq_dependency(INIH inih)
    lq_dependency(MICROHTTPD libmicrohttpd)
    pkg_check_modules(RAFT QUIET IMPORTED_TARGET GLOBAL raft)
    if(NOT RAFT_FOUND OR RAFT_VERSION VERSION_LESS 0.22 OR RAFT_VERSION VERSION_GREATER_EQUAL 0.23)
        message(FATAL_ERROR "LightQ needs libraft 0.22.x, but found '${RAFT_VERSION}'. Older ones lose acknowledged "
            "entries and newer ones changed who frees what (docs/adr/0001). Run deploy/deps.sh, which installs it.")
    endif()
endif()

if(LIGHTQ_TESTS)
    lq_dependency(CMOCKA cmocka)
    lq_dependency(ZMQ libzmq) # the other side of our ZMTP
endif()
