# One static library a module, one test program a module.
#   zp_module(cache SOURCES block_hash.cpp ... DEPS base PRIVATE_LIBS PkgConfig::xxhash PUBLIC_LIBS ...)
#     makes target zp_cache from src/zp/cache, linking only zp_<dep> of the modules it names.
#   zp_test(cache SOURCES block_hash_test.cpp ... DEPS cache)
#     makes program zp_cache_test; every TEST in it becomes a CTest test.
include(GoogleTest)

add_library(zp_options INTERFACE)
target_include_directories(zp_options INTERFACE ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/include)
target_compile_features(zp_options INTERFACE cxx_std_20)
target_compile_options(zp_options INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion -Werror>)

function(zp_module name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS;PUBLIC_LIBS;PRIVATE_LIBS" ${ARGN})
  add_library(zp_${name} STATIC ${ARG_SOURCES})
  add_library(zp::${name} ALIAS zp_${name})
  list(TRANSFORM ARG_DEPS PREPEND zp_)
  target_link_libraries(zp_${name} PUBLIC zp_options ${ARG_DEPS} ${ARG_PUBLIC_LIBS} PRIVATE ${ARG_PRIVATE_LIBS})
endfunction()

function(zp_test name)
  if(NOT ZP_BUILD_TESTS)
    return()
  endif()
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS;LIBS;LABELS" ${ARGN})
  add_executable(zp_${name}_test ${ARG_SOURCES})
  list(TRANSFORM ARG_DEPS PREPEND zp_)
  target_link_libraries(zp_${name}_test PRIVATE zp_options ${ARG_DEPS} ${ARG_LIBS} GTest::gmock GTest::gtest_main)
  target_include_directories(zp_${name}_test PRIVATE ${PROJECT_SOURCE_DIR})
  target_compile_definitions(zp_${name}_test PRIVATE ZP_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
  gtest_discover_tests(zp_${name}_test TEST_PREFIX "${name}." DISCOVERY_TIMEOUT 60
    PROPERTIES LABELS "${ARG_LABELS}" TIMEOUT 300)
endfunction()
