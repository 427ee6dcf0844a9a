# SPDX-License-Identifier: LGPL-2.1-or-later
# Defines an imported target deps::<name> for each library that the project uses.
# cmake/install-deps installs the libraries, and cmake/layers.txt says which layers may
# include them.

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
  # Debian builds protobuf without TSan, and protobuf's headers lay out map fields
  # differently with TSan.
  target_compile_options(deps_grpc INTERFACE -U__SANITIZE_THREAD__)
endif()
mountd_dependency(crypto libcrypto)
mountd_dependency(cli11 CLI11)
mountd_dependency(toml tomlplusplus)
mountd_dependency(json nlohmann_json)
find_program(PROTOC protoc REQUIRED)
find_program(GRPC_CPP_PLUGIN grpc_cpp_plugin REQUIRED)
if(MOUNTD_TESTS)
  mountd_dependency(gtest gmock gtest gtest_main)
  mountd_dependency(benchmark benchmark)
endif()

# sdbus-c++ is Debian's package, or the static build of cmake/install-deps if Debian has
# another version. Both are of the one version in cmake/versions. A sanitizer build takes
# the instrumented copy if it exists, because TSan cannot see the locks of a library that
# is not instrumented.
set_property(DIRECTORY ${PROJECT_SOURCE_DIR} APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS
             ${PROJECT_SOURCE_DIR}/cmake/versions)
file(STRINGS ${PROJECT_SOURCE_DIR}/cmake/versions mountd_sdbus_version
     REGEX "^SDBUS_CPP_VERSION=")
string(REPLACE "SDBUS_CPP_VERSION=" "" mountd_sdbus_version ${mountd_sdbus_version})
set(MOUNTD_DEPS_DIR ${PROJECT_SOURCE_DIR}/build/deps/sdbus-cpp CACHE PATH
    "Where cmake/install-deps put its sdbus-c++")
set(mountd_sdbus_dir ${MOUNTD_DEPS_DIR})
# The copy is for one compiler, because each compiler has sanitizers of its own.
set(mountd_sdbus_copy
    ${MOUNTD_DEPS_DIR}-${MOUNTD_SANITIZE}-${CMAKE_CXX_COMPILER_ID})
if(MOUNTD_SANITIZE AND EXISTS ${mountd_sdbus_copy})
  set(mountd_sdbus_dir ${mountd_sdbus_copy})
endif()
if(EXISTS ${mountd_sdbus_dir}/lib/pkgconfig)
  set(ENV{PKG_CONFIG_PATH}
      "${mountd_sdbus_dir}/lib/pkgconfig:$ENV{PKG_CONFIG_PATH}")
endif()
mountd_dependency(sdbus sdbus-c++=${mountd_sdbus_version})
# The static library needs these libraries, and pkg-config names them only for --static.
target_link_libraries(deps_sdbus INTERFACE deps::systemd Threads::Threads)

find_program(SDBUS_XML2CPP sdbus-c++-xml2cpp REQUIRED
             HINTS ${MOUNTD_DEPS_DIR}/bin)

# mountd_generate_dbus(<target> [ADAPTOR <xml>...] [PROXY <xml>...])
#
# Makes an interface library. Its users include the C++ code for the XML files as
# "dbus/generated/<interface>_adaptor.h" and "…_proxy.h", where <interface> is the last
# part of the file's name in lower case: org.mountd1.Manager.xml gives
# manager_adaptor.h. The code has dbus::Value (dbus/dict/value.h) for a variant.
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
                -e "0,/#include/s||#include \"dbus/dict/value.h\"\\n#include|"
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

# mountd_generate_grpc(<target> <proto>...)
#
# Makes a static library of the messages and services of .proto files, which include each
# other by their names alone. Its users include <NAME.pb.h> and <NAME.grpc.pb.h>. The
# generated code is compiled without warnings. It gets the flags of ASan and TSan as its
# users do, because protobuf's layouts depend on these flags.
function(mountd_generate_grpc target)
  set(generated ${CMAKE_CURRENT_BINARY_DIR}/generated)
  file(MAKE_DIRECTORY ${generated})
  set(sources)
  foreach(proto IN LISTS ARGN)
    cmake_path(GET proto STEM name)
    set(outputs ${generated}/${name}.pb.cc ${generated}/${name}.grpc.pb.cc)
    add_custom_command(
      OUTPUT ${outputs} ${generated}/${name}.pb.h ${generated}/${name}.grpc.pb.h
      COMMAND ${PROTOC} --proto_path=${CMAKE_CURRENT_SOURCE_DIR}
              --cpp_out=${generated} --grpc_out=${generated}
              --plugin=protoc-gen-grpc=${GRPC_CPP_PLUGIN}
              ${CMAKE_CURRENT_SOURCE_DIR}/${proto}
      DEPENDS ${ARGN}
      VERBATIM)
    list(APPEND sources ${outputs})
  endforeach()
  add_library(${target} STATIC ${sources})
  target_compile_options(${target} PRIVATE -w
    $<$<BOOL:${MOUNTD_SANITIZE}>:-O0 -fno-sanitize=undefined>)
  target_include_directories(${target} SYSTEM PUBLIC ${generated})
  target_link_libraries(${target} PUBLIC deps::grpc)
  set_target_properties(${target} PROPERTIES CXX_CLANG_TIDY "" UNITY_BUILD OFF)
endfunction()
