# How everything is compiled and linked: language, warnings as errors, sanitizers, ccache, mold, run-time search path.
include(CheckLinkerFlag)

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()

# A compiler newer than ours may warn of more: `cmake --compile-no-warning-as-error` is the way out for its user.
if(NOT DEFINED CMAKE_COMPILE_WARNING_AS_ERROR)
  set(CMAKE_COMPILE_WARNING_AS_ERROR ON)
endif()

# A build folder's lib/ holds the shared libraries for machines that lack them (tools/bundle_libraries.sh). Programs
# lie in the build folder itself or, tests and benchmarks, one folder below.
set(CMAKE_BUILD_RPATH "$ORIGIN/lib;$ORIGIN/../lib")
set(CMAKE_INSTALL_RPATH "$ORIGIN/lib")

if(ZP_SANITIZE)
  # Undefined behaviour must end the program, or a test that meets it would still pass.
  add_compile_options(-fsanitize=${ZP_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${ZP_SANITIZE})
endif()

# With a base folder and without the hash of the build folder, checkouts in different places share their objects.
find_program(CCACHE_PROGRAM ccache)
if(CCACHE_PROGRAM)
  foreach(language CXX CUDA)
    if(NOT DEFINED CMAKE_${language}_COMPILER_LAUNCHER)
      set(CMAKE_${language}_COMPILER_LAUNCHER
        env CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} CCACHE_NOHASHDIR=1 ${CCACHE_PROGRAM})
    endif()
  endforeach()
endif()

find_program(MOLD_PROGRAM mold)
if(MOLD_PROGRAM)
  check_linker_flag(CXX -fuse-ld=mold ZP_HAVE_MOLD)
  if(ZP_HAVE_MOLD)
    add_link_options($<HOST_LINK:-fuse-ld=mold>)
  endif()
endif()
