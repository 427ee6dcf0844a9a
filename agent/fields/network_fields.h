// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include "agent/fields/field.h"

// The fields of networks.
namespace mountd::agent {

template <>
struct FieldsOf<Port> {
  static constexpr auto kList = std::tuple(
      Key("label", &Port::label), Key("host_address", &Port::host_address),
      Key("host", &Port::host), Key("container", &Port::container),
      Key("count", &Port::count), Key("protocols", &Port::protocols));
};

template <>
struct FieldsOf<NetworkSpec::Host> {
  static constexpr auto kList =
      std::tuple(Key("address", &NetworkSpec::Host::address),
                 Key("names", &NetworkSpec::Host::names));
};

// The options of SetupNetwork. The mode and the ports are arguments.
template <>
struct FieldsOf<NetworkSpec> {
  static constexpr auto kList = std::tuple(
      Key("network", &NetworkSpec::network),
      Key("interface", &NetworkSpec::interface),
      Key("address", &NetworkSpec::address),
      Key("address6", &NetworkSpec::address6),
      Key("isolated", &NetworkSpec::isolated),
      Key("default_route", &NetworkSpec::default_route),
      Key("hostname", &NetworkSpec::hostname),
      Key<Form::kRows>("hosts", &NetworkSpec::hosts),
      Key("dns_servers", &NetworkSpec::dns_servers),
      Key("dns_searches", &NetworkSpec::dns_searches),
      Key("dns_options", &NetworkSpec::dns_options),
      Key("cni_args", &NetworkSpec::cni_args), Key("mac", &NetworkSpec::mac),
      Key("ips", &NetworkSpec::ips), Key("bandwidth", &NetworkSpec::bandwidth),
      Key<Form::kFd>("netns", &NetworkSpec::netns),
      Key<Form::kFd>("ports_keeper", &NetworkSpec::ports_keeper));
};

template <>
struct FieldsOf<NetworkStatus::File> {
  static constexpr auto kList =
      std::tuple(Key<Form::kPath>("host_path", &NetworkStatus::File::host_path),
                 Key("task_path", &NetworkStatus::File::task_path));
};

template <>
struct FieldsOf<NetworkStatus> {
  static constexpr auto kList =
      std::tuple(Key<Form::kRows>("files", &NetworkStatus::files),
                 Key("mode", &NetworkStatus::mode),
                 Key("network", &NetworkStatus::network),
                 Key("isolated", &NetworkStatus::isolated),
                 Key("default_route", &NetworkStatus::default_route),
                 Key<Form::kPath>("netns_path", &NetworkStatus::netns_path),
                 Key("netns_inode", &NetworkStatus::netns_inode),
                 Key("interface", &NetworkStatus::interface),
                 Key("address", &NetworkStatus::address),
                 Key("address6", &NetworkStatus::address6),
                 Key("gateway", &NetworkStatus::gateway),
                 Key("gateway6", &NetworkStatus::gateway6),
                 Key("host_interface", &NetworkStatus::host_interface),
                 Key("mac", &NetworkStatus::mac),
                 Key("dns_servers", &NetworkStatus::dns_servers),
                 Key("dns_searches", &NetworkStatus::dns_searches),
                 Key("dns_options", &NetworkStatus::dns_options),
                 Key<Form::kRows>("ports", &NetworkStatus::ports));
};

}  // namespace mountd::agent
