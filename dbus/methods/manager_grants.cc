// SPDX-License-Identifier: LGPL-2.1-or-later
#include "dbus/methods/grants_to_dict.h"
#include "dbus/methods/manager_serve.h"

// ManagerAdaptor's methods on what a caller may use.
namespace mountd::dbus {
namespace {

// Reads "all_users" and "uid".
GrantsOf GrantsOfFrom(OptionReader& reader) {
  GrantsOf of;
  of.all_users = reader.Get<bool>("all_users", false);
  if (reader.Has("uid")) {
    of.uid = reader.Get<std::uint32_t>("uid", 0);
  }
  if (of.all_users && of.uid) {
    reader.Refuse("uid", "does not go with all_users; leave out one of them");
  }
  return of;
}

std::string IdentityOf(const GrantsOf& of) {
  if (of.all_users) {
    return "all users";
  }
  return of.uid ? std::to_string(*of.uid) : "";
}

}  // namespace

template <typename Grant>
void ManagerAdaptor::ServeGrants(
    sdbus::Result<std::vector<Dict>>&& answer, const std::string& method,
    const std::string& strand, const Dict& options,
    Result<std::vector<Grant>> (GrantVerbs::*list)(const CallContext&,
                                                   const GrantsOf&) const) {
  using T = std::vector<Grant>;
  OptionReader reader("options", options);
  const GrantsOf of = GrantsOfFrom(reader);
  Serve<T>(
      std::move(answer), method,
      [&]() -> Result<Decoded<T>> {
        Decoded<T> call;
        call.patience = Patience(reader);
        MOUNTD_TRY(reader.Finish());
        call.strand = strand;
        call.arguments = Arguments::Of(IdentityOf(of));
        call.work = [list, of](Services& services, const CallContext& context) {
          return (services.grants.*list)(context, of);
        };
        return call;
      },
      [of_all_users = of.all_users](const T& grants) {
        std::vector<Dict> dicts;
        for (const Grant& grant : grants) {
          dicts.push_back(ToDict(grant, of_all_users));
        }
        return dicts;
      });
}

void ManagerAdaptor::ListHostVolumes(sdbus::Result<std::vector<Dict>>&& answer,
                                     Dict options) {
  ServeGrants(std::move(answer), "ListHostVolumes", "", options,
              &GrantVerbs::ListHostVolumes);
}

void ManagerAdaptor::ListFilesystems(sdbus::Result<std::vector<Dict>>&& answer,
                                     Dict options) {
  ServeGrants(std::move(answer), "ListFilesystems", "", options,
              &GrantVerbs::ListFilesystems);
}

// Asking for CNI's networks takes long, so this call shares the strand of
// GetCapabilities, which asks the same.
void ManagerAdaptor::ListNetworks(sdbus::Result<std::vector<Dict>>&& answer,
                                  Dict options) {
  ServeGrants(std::move(answer), "ListNetworks",
              parts_.services.capabilities.HasCni() ? "capabilities" : "",
              options, &GrantVerbs::ListNetworks);
}

}  // namespace mountd::dbus
