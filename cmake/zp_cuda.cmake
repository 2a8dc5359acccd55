# Decides whether the CUDA backend is compiled, and finds what it links. Sets
#   ZP_CUDA_ENABLED   whether it is, for the CMake files of the modules;
#   ZP_CUDA_BACKEND   `cuda` or `no_cuda`: the folder of a module whose sources are compiled. Sources hold no #ifdef.
set(ZP_CUDA_ENABLED OFF)
set(ZP_CUDA_BACKEND no_cuda)
if(ZP_CUDA STREQUAL "OFF")
  return()
endif()

if(NOT CMAKE_CUDA_COMPILER AND NOT DEFINED ENV{CUDACXX})
  # The toolkit's folder is often not on PATH.
  find_program(ZP_NVCC nvcc HINTS ENV CUDA_HOME ENV CUDA_PATH /usr/local/cuda PATH_SUFFIXES bin)
  if(ZP_NVCC)
    set(CMAKE_CUDA_COMPILER ${ZP_NVCC})
  endif()
endif()
# Kernels are written for Hopper (wgmma, TMA); another architecture is refused by name at run time.
if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
  set(CMAKE_CUDA_ARCHITECTURES 90a-real)
endif()
include(CheckLanguage)
check_language(CUDA)
if(NOT CMAKE_CUDA_COMPILER)
  if(ZP_CUDA STREQUAL "ON")
    message(FATAL_ERROR "ZP_CUDA=ON, but no nvcc was found: put it on PATH, set CUDACXX, or use ZP_CUDA=AUTO or OFF")
  endif()
  message(STATUS "CUDA backend: off, no nvcc was found")
  return()
endif()

enable_language(CUDA)
# CMake learnt only after 3.25 (Debian 12) that nvcc 12 and later know C++20.
if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)
  set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
  set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION -std=c++20)
  list(APPEND CMAKE_CUDA_COMPILE_FEATURES cuda_std_20)
endif()
set(CMAKE_CUDA_STANDARD 20)
set(CMAKE_CUDA_STANDARD_REQUIRED ON)
set(CMAKE_CUDA_EXTENSIONS OFF)
# A toolkit or wheels' folder given here is searched before the system, for machines with several versions.
set(ZP_NVIDIA_WHEELS "" CACHE PATH "The nvidia/ folder of a Python's site-packages, whose libraries are preferred")
find_package(CUDAToolkit REQUIRED)
find_library(NCCL_LIBRARY NAMES nccl libnccl.so.2 HINTS ${ZP_NVIDIA_WHEELS}/nccl/lib ${CUDAToolkit_LIBRARY_DIR})
find_path(NCCL_INCLUDE_DIR nccl.h HINTS ${ZP_NVIDIA_WHEELS}/nccl/include ${CUDAToolkit_INCLUDE_DIRS})
find_library(CUDNN_LIBRARY NAMES cudnn libcudnn.so.9 HINTS ${ZP_NVIDIA_WHEELS}/cudnn/lib ${CUDAToolkit_LIBRARY_DIR})

set(ZP_CUDA_ENABLED ON)
set(ZP_CUDA_BACKEND cuda)
message(STATUS "CUDA backend: on, nvcc ${CMAKE_CUDA_COMPILER_VERSION}, architectures ${CMAKE_CUDA_ARCHITECTURES}")
