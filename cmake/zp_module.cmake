# One static library a module; test, benchmark and fuzz programs that name the modules they use.
#   zp_module(cache SOURCES block_hash.cpp ... DEPS base PUBLIC_LIBS ... PRIVATE_LIBS PkgConfig::xxhash)
#     makes target zp_cache from src/zp/cache, linking only zp_<dep> of the modules it names.
#   zp_app(zeroprefill SOURCES main.cpp ... DEPS engine task LIBS CLI11::CLI11)
#     makes a program in the root of the build folder.
#   zp_test(cache SOURCES block_hash_test.cpp ... DEPS cache [LIBS ...] [LABELS slow] [SERIAL])
#     makes tests/zp_cache_test; every TEST in it becomes a CTest test. With the label slow CI leaves them out under
#     sanitizers; with SERIAL nothing runs beside them.
#   zp_bench(cache SOURCES ... DEPS ...) makes bench/cache_bench, with Google Benchmark's main.
#   zp_fuzz(json SOURCES ... DEPS ...)   makes fuzz/json_fuzz; the source has LLVMFuzzerTestOneInput.
include(GoogleTest)

add_library(zp_options INTERFACE)
target_include_directories(zp_options INTERFACE ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/include)
target_compile_features(zp_options INTERFACE cxx_std_20)
target_compile_options(zp_options INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion>
  # g++ 12 sees overlapping copies in ordinary string concatenation (gcc.gnu.org/PR105651).
  $<$<CXX_COMPILER_ID:GNU>:$<$<COMPILE_LANGUAGE:CXX>:-Wno-restrict>>
  # nvcc's generated host code is not pedantic; -lineinfo lets profilers and compute-sanitizer name source lines.
  $<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-Wall,-Wextra -lineinfo --expt-relaxed-constexpr>)
# fmt 9 drops `constexpr` under nvcc and then does not compile as C++20; nvcc 13 handles it.
target_compile_definitions(zp_options INTERFACE $<$<COMPILE_LANGUAGE:CUDA>:FMT_USE_CONSTEXPR=1>)

# A misspelt keyword would otherwise be ignored.
function(zp_refuse_unknown)
  if(ARGC GREATER 0)
    message(FATAL_ERROR "unknown or too many arguments: ${ARGN}")
  endif()
endfunction()

# Links a program to the modules and libraries that it names.
function(zp_link target)
  cmake_parse_arguments(ARG "" "" "DEPS;LIBS" ${ARGN})
  zp_refuse_unknown(${ARG_UNPARSED_ARGUMENTS})
  list(TRANSFORM ARG_DEPS PREPEND zp_)
  target_link_libraries(${target} PRIVATE zp_options ${ARG_DEPS} ${ARG_LIBS})
endfunction()

function(zp_module name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS;PUBLIC_LIBS;PRIVATE_LIBS" ${ARGN})
  zp_refuse_unknown(${ARG_UNPARSED_ARGUMENTS})
  add_library(zp_${name} STATIC ${ARG_SOURCES})
  add_library(zp::${name} ALIAS zp_${name})
  list(TRANSFORM ARG_DEPS PREPEND zp_)
  target_link_libraries(zp_${name} PUBLIC zp_options ${ARG_DEPS} ${ARG_PUBLIC_LIBS} PRIVATE ${ARG_PRIVATE_LIBS})
endfunction()

function(zp_app name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS;LIBS" ${ARGN})
  zp_refuse_unknown(${ARG_UNPARSED_ARGUMENTS})
  add_executable(${name} ${ARG_SOURCES})
  zp_link(${name} DEPS ${ARG_DEPS} LIBS ${ARG_LIBS})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR})
endfunction()

function(zp_test name)
  if(NOT ZP_BUILD_TESTS)
    return()
  endif()
  cmake_parse_arguments(ARG "SERIAL" "LABELS" "SOURCES;DEPS;LIBS" ${ARGN})
  zp_refuse_unknown(${ARG_UNPARSED_ARGUMENTS})
  add_executable(zp_${name}_test ${ARG_SOURCES})
  zp_link(zp_${name}_test DEPS ${ARG_DEPS} LIBS ${ARG_LIBS} GTest::gmock GTest::gtest_main)
  target_include_directories(zp_${name}_test PRIVATE ${PROJECT_SOURCE_DIR})
  target_compile_definitions(zp_${name}_test PRIVATE ZP_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
  set_target_properties(zp_${name}_test PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
  if(ZP_SANITIZE)
    # The libraries are what is checked; optimising instrumented tests as well would double the time of the build.
    target_compile_options(zp_${name}_test PRIVATE -O0)
  endif()
  set(properties TIMEOUT 300)
  # One label only: gtest_discover_tests cannot pass a list on.
  if(ARG_LABELS)
    list(APPEND properties LABELS ${ARG_LABELS})
  endif()
  if(ARG_SERIAL)
    list(APPEND properties RUN_SERIAL ON)
  endif()
  # A CUDA test program may not even start on the machine that builds it, so its tests are listed when CTest runs.
  set(mode POST_BUILD)
  if(ZP_CUDA_ENABLED)
    set(mode PRE_TEST)
  endif()
  gtest_discover_tests(zp_${name}_test TEST_PREFIX "${name}." DISCOVERY_TIMEOUT 60 DISCOVERY_MODE ${mode}
    PROPERTIES ${properties})
endfunction()

function(zp_bench name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS;LIBS" ${ARGN})
  zp_refuse_unknown(${ARG_UNPARSED_ARGUMENTS})
  add_executable(zp_${name}_bench ${ARG_SOURCES})
  zp_link(zp_${name}_bench DEPS ${ARG_DEPS} LIBS ${ARG_LIBS} benchmark::benchmark_main)
  target_include_directories(zp_${name}_bench PRIVATE ${PROJECT_SOURCE_DIR})
  set_target_properties(zp_${name}_bench PROPERTIES
    OUTPUT_NAME ${name}_bench RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bench)
endfunction()

function(zp_fuzz name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS;LIBS" ${ARGN})
  zp_refuse_unknown(${ARG_UNPARSED_ARGUMENTS})
  add_executable(zp_${name}_fuzz ${ARG_SOURCES})
  zp_link(zp_${name}_fuzz DEPS ${ARG_DEPS} LIBS ${ARG_LIBS})
  # The libraries carry only the instrumentation (preset fuzz: fuzzer-no-link); the driver's main comes in here.
  target_link_options(zp_${name}_fuzz PRIVATE -fsanitize=fuzzer)
  set_target_properties(zp_${name}_fuzz PROPERTIES
    OUTPUT_NAME ${name}_fuzz RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/fuzz)
endfunction()

# Adds every folder below the current one that has a CMakeLists.txt, so that a new one needs no edit here.
function(zp_add_folders)
  file(GLOB files CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*/CMakeLists.txt)
  foreach(file ${files})
    cmake_path(GET file PARENT_PATH folder)
    add_subdirectory(${folder})
  endforeach()
endfunction()
