# SPDX-License-Identifier: LGPL-2.1-or-later
# Compiler options for everything: language, warnings, hardening, sanitizers.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_CXX_SCAN_FOR_MODULES OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()

set(CMAKE_CXX_FLAGS_RELEASE "-O2 -DNDEBUG")

include(CheckPIESupported)
check_pie_supported()

include(GNUInstallDirs)
# The folder of programs that only services start, never a person.
set(MOUNTD_LIBEXEC ${CMAKE_INSTALL_FULL_LIBEXECDIR}/mountd)

# All programs are in one folder, as they are once installed.
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin)

option(MOUNTD_WERROR "Treat warnings as errors" ON)
option(MOUNTD_TESTS "Build the tests" ON)
option(MOUNTD_NODE_TESTS "Also the tests of whole nodes, counterparts and fuzzing" ON)
option(MOUNTD_FUZZ "Build the fuzz targets with libFuzzer; needs clang" OFF)
set(MOUNTD_SANITIZE "" CACHE STRING "address (with UBSan), thread, or nothing")
set_property(CACHE MOUNTD_SANITIZE PROPERTY STRINGS "" address thread)

add_compile_options(
  -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wsign-conversion
  -Wnon-virtual-dtor -Wold-style-cast -Wimplicit-fallthrough
  $<$<CXX_COMPILER_ID:GNU>:-Wuseless-cast>
  $<$<BOOL:${MOUNTD_WERROR}>:-Werror>)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # GCC 12 warns of overlapping copies in "text" + string (GCC bug 105651). GCC 12 and
  # 14 warn that an inlined std::variant uses its empty side (bug 105562). Both warnings
  # are wrong here; clang and the sanitizers look for real cases.
  add_compile_options(
    $<$<VERSION_LESS:$<CXX_COMPILER_VERSION>,13>:-Wno-restrict>
    $<$<VERSION_LESS:$<CXX_COMPILER_VERSION>,15>:-Wno-maybe-uninitialized>)
endif()

if(CMAKE_UNITY_BUILD AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # In a unity build GCC takes a file's own anonymous namespace for an included one.
  add_compile_options(-Wno-subobject-linkage)
endif()

# Every quoted include begins at the project's root ("mountd/base/result.h").
include_directories(${PROJECT_SOURCE_DIR})

find_program(MOUNTD_CCACHE ccache)
if(MOUNTD_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  # A clone in another folder finds what this one has compiled, because ccache
  # makes paths below the base directory relative before it compares. The sloppiness
  # is the condition under which ccache takes precompiled headers.
  set(CMAKE_CXX_COMPILER_LAUNCHER
      ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${PROJECT_SOURCE_DIR}
      CCACHE_NOHASHDIR=1 CCACHE_SLOPPINESS=pch_defines,time_macros
      ${MOUNTD_CCACHE})
endif()

if(MOUNTD_SANITIZE)
  add_compile_definitions(MOUNTD_SANITIZED)
endif()
if(MOUNTD_SANITIZE STREQUAL "address")
  add_compile_options(-fsanitize=address,undefined -fno-sanitize-recover=all
                      -fno-omit-frame-pointer)
  add_link_options(-fsanitize=address,undefined)
elseif(MOUNTD_SANITIZE STREQUAL "thread")
  add_compile_options(-fsanitize=thread -fno-omit-frame-pointer)
  add_link_options(-fsanitize=thread)
elseif(MOUNTD_SANITIZE)
  message(FATAL_ERROR "MOUNTD_SANITIZE is address, thread or empty")
endif()

if(MOUNTD_FUZZ)
  # The product and the fuzz targets get libFuzzer's coverage, and only these targets
  # get its main.
  add_compile_options(-fsanitize=fuzzer-no-link)
endif()

if(CMAKE_BUILD_TYPE MATCHES "^Rel" AND NOT MOUNTD_SANITIZE)
  add_compile_options(
    -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2 -D_GLIBCXX_ASSERTIONS
    -fstack-protector-strong -fstack-clash-protection)
  if(CMAKE_SYSTEM_PROCESSOR STREQUAL "x86_64")
    add_compile_options(-fcf-protection)
  endif()
  add_link_options(-Wl,-z,relro -Wl,-z,now -Wl,-z,noexecstack -Wl,--as-needed)
endif()
