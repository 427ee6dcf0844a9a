# SPDX-License-Identifier: LGPL-2.1-or-later
# Every library the project uses, each as one imported target deps::<name>.
# cmake/install-deps installs them; cmake/layers.txt says who may include them.

find_package(PkgConfig REQUIRED)
find_package(Threads REQUIRED)

# mountd_dependency(<name> <pkg-config module>...) makes deps::<name>.
function(mountd_dependency name)
  pkg_check_modules(MOUNTD_${name} REQUIRED QUIET IMPORTED_TARGET ${ARGN})
  add_library(deps_${name} INTERFACE)
  target_link_libraries(deps_${name} INTERFACE PkgConfig::MOUNTD_${name})
  add_library(deps::${name} ALIAS deps_${name})
endfunction()

mountd_dependency(mount mount)
mountd_dependency(nl libnl-3.0 libnl-route-3.0)
mountd_dependency(nftables libnftables)
mountd_dependency(nettle nettle)
mountd_dependency(cap libcap)
mountd_dependency(seccomp libseccomp)
mountd_dependency(systemd libsystemd)
mountd_dependency(spdlog spdlog)
mountd_dependency(sqlite sqlite3)
mountd_dependency(grpc grpc++ protobuf)
if(MOUNTD_SANITIZE STREQUAL "thread")
  # protobuf's map fields are laid out otherwise with TSan, and Debian's library
  # is built without.
  target_compile_options(deps_grpc INTERFACE -U__SANITIZE_THREAD__)
endif()
mountd_dependency(cli11 CLI11)
mountd_dependency(toml tomlplusplus)
mountd_dependency(json nlohmann_json)
find_program(PROTOC protoc REQUIRED)
find_program(GRPC_CPP_PLUGIN grpc_cpp_plugin REQUIRED)
if(MOUNTD_TESTS)
  mountd_dependency(gtest gmock gtest gtest_main)
  mountd_dependency(benchmark benchmark)
endif()

# sdbus-c++ 2.x: Debian's package where there is one, else the static build of
# cmake/install-deps. A sanitizer build takes the instrumented copy if there is
# one: TSan cannot see the locks of a library that is not instrumented.
set(MOUNTD_DEPS_DIR ${PROJECT_SOURCE_DIR}/build/deps/sdbus-cpp CACHE PATH
    "Where cmake/install-deps put its sdbus-c++")
set(mountd_sdbus_dir ${MOUNTD_DEPS_DIR})
# Each compiler's sanitizers are its own.
set(mountd_sdbus_copy
    ${MOUNTD_DEPS_DIR}-${MOUNTD_SANITIZE}-${CMAKE_CXX_COMPILER_ID})
if(MOUNTD_SANITIZE AND EXISTS ${mountd_sdbus_copy})
  set(mountd_sdbus_dir ${mountd_sdbus_copy})
endif()
if(EXISTS ${mountd_sdbus_dir}/lib/pkgconfig)
  set(ENV{PKG_CONFIG_PATH}
      "${mountd_sdbus_dir}/lib/pkgconfig:$ENV{PKG_CONFIG_PATH}")
endif()
mountd_dependency(sdbus sdbus-c++>=2.0)
# A static library's own needs are not in its pkg-config's shared half.
target_link_libraries(deps_sdbus INTERFACE deps::systemd Threads::Threads)

find_program(SDBUS_XML2CPP sdbus-c++-xml2cpp REQUIRED
             HINTS ${MOUNTD_DEPS_DIR}/bin)

# mountd_generate_dbus(<target> [ADAPTOR <xml>...] [PROXY <xml>...])
#
# An interface library whose users find the C++ side of D-Bus XML files as
# "dbus/generated/<interface>_adaptor.h" and "…_proxy.h", where <interface> is
# the last part of the file's name in lower case: org.mountd1.Manager.xml gives
# manager_adaptor.h. A variant is a dbus::Value there (dbus/value.h).
function(mountd_generate_dbus target)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "ADAPTOR;PROXY")
  set(include_dir ${PROJECT_BINARY_DIR}/generated/${target})
  set(outputs)
  foreach(kind ADAPTOR PROXY)
    string(TOLOWER ${kind} suffix)
    foreach(xml IN LISTS arg_${kind})
      cmake_path(ABSOLUTE_PATH xml BASE_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR})
      cmake_path(GET xml STEM LAST_ONLY name)
      string(REGEX REPLACE "^.*\\." "" name ${name})
      string(TOLOWER ${name} name)
      set(header ${include_dir}/dbus/generated/${name}_${suffix}.h)
      add_custom_command(
        OUTPUT ${header}
        COMMAND ${CMAKE_COMMAND} -E make_directory ${include_dir}/dbus/generated
        COMMAND ${SDBUS_XML2CPP} ${xml} --${suffix}=${header}
        COMMAND sed -i -e s/sdbus::Variant/mountd::dbus::Value/g
                -e "0,/#include/s||#include \"dbus/value.h\"\\n#include|"
                ${header}
        DEPENDS ${xml}
        VERBATIM)
      list(APPEND outputs ${header})
    endforeach()
  endforeach()
  add_custom_target(${target}_files DEPENDS ${outputs})
  add_library(${target} INTERFACE)
  add_dependencies(${target} ${target}_files)
  target_include_directories(${target} SYSTEM INTERFACE ${include_dir})
  target_link_libraries(${target} INTERFACE deps::sdbus)
endfunction()
