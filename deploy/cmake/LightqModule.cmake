# The two verbs of our CMake: lq_module and lq_test.

add_library(lightq_flags INTERFACE)
target_compile_features(lightq_flags INTERFACE c_std_11)
target_compile_definitions(lightq_flags INTERFACE _GNU_SOURCE)
target_compile_options(lightq_flags INTERFACE
    -Wall -Wextra -Werror -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wpointer-arith -Wcast-align
    -Wwrite-strings -Wvla -Wundef -fno-strict-aliasing -fno-common -fvisibility=hidden -UNDEBUG
    # Texts for people are cut to their buffers on purpose.
    $<$<C_COMPILER_ID:GNU>:-Wno-format-truncation>
    # Our folder raft/ would shadow libraft's <raft/...> with -I: quoted includes only. SHELL: keeps CMake
    # from dropping the second "-iquote" as a repetition.
    "SHELL:-iquote ${PROJECT_SOURCE_DIR}" "SHELL:-iquote ${PROJECT_BINARY_DIR}"
    # __FILE__ is the path in the repository: short log lines, and the same binary wherever it is built.
    -fmacro-prefix-map=${PROJECT_SOURCE_DIR}/=)
if(LIGHTQ_FUZZ) # so that the fuzzer sees which branches of the modules it reached
    target_compile_options(lightq_flags INTERFACE -fsanitize=fuzzer-no-link)
endif()
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
if(LIGHTQ_SANITIZE)
    target_compile_options(lightq_flags INTERFACE
        -fsanitize=${LIGHTQ_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
    target_link_options(lightq_flags INTERFACE -fsanitize=${LIGHTQ_SANITIZE})
endif()

# lq_module(NAME SOURCES file... [LINK target...] [FOREIGN target...])
# A static library lq_NAME. LINK: our modules it may call; FOREIGN: libraries of others.
function(lq_module name)
    cmake_parse_arguments(ARG "" "" "SOURCES;LINK;FOREIGN" ${ARGN})
    add_library(lq_${name} STATIC ${ARG_SOURCES})
    target_link_libraries(lq_${name} PUBLIC lightq_flags ${ARG_LINK} PRIVATE ${ARG_FOREIGN})
endfunction()

# lq_test(NAME SOURCES file... [LINK target...] [LABELS label...] [TIMEOUT seconds] [BESIDE])
# One cmocka program, one ctest test. It has the machine to itself, for most tests wait for something with a deadline;
# BESIDE: it only computes (no clock but a false one, no thread, no port, no file), and may run beside others that do so.
function(lq_test name)
    cmake_parse_arguments(ARG "BESIDE" "TIMEOUT" "SOURCES;LINK;LABELS" ${ARGN})
    add_executable(${name} ${ARG_SOURCES})
    target_link_libraries(${name} PRIVATE lightq_flags ${ARG_LINK} PkgConfig::CMOCKA)
    add_test(NAME ${name} COMMAND ${name})
    if(NOT ARG_TIMEOUT)
        set(ARG_TIMEOUT 120)
    endif()
    if(LIGHTQ_SANITIZE) # slow, and the machine may be busy: it is there to end what hangs
        math(EXPR ARG_TIMEOUT "4 * ${ARG_TIMEOUT}")
    endif()
    if(NOT ARG_LABELS)
        set(ARG_LABELS unit)
    endif()
    set_tests_properties(${name} PROPERTIES TIMEOUT ${ARG_TIMEOUT} LABELS "${ARG_LABELS}")
    if(NOT ARG_BESIDE)
        set_tests_properties(${name} PROPERTIES RUN_SERIAL ON)
    endif()
endfunction()

# lq_fuzz(NAME SOURCES file... LINK target...): a libFuzzer harness; under ctest it runs its corpus and a short time.
function(lq_fuzz name)
    cmake_parse_arguments(ARG "" "" "SOURCES;LINK" ${ARGN})
    if(NOT LIGHTQ_FUZZ)
        return()
    endif()
    add_executable(${name} ${ARG_SOURCES})
    target_compile_options(${name} PRIVATE -fsanitize=fuzzer)
    target_link_options(${name} PRIVATE -fsanitize=fuzzer)
    target_link_libraries(${name} PRIVATE lightq_flags ${ARG_LINK})
    add_test(NAME ${name} COMMAND ${name} -max_total_time=10 -timeout=25 -rss_limit_mb=1024)
    set_tests_properties(${name} PROPERTIES TIMEOUT 120 LABELS fuzz)
endfunction()
