// SPDX-License-Identifier: LGPL-2.1-or-later
#include "agent/nomad/goplugin/certificate.h"

#include <openssl/bio.h>
#include <openssl/ec.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <array>
#include <memory>

namespace mountd::goplugin {
namespace {

// X.509 counts versions from 0.
constexpr long kVersion3 = 2;
// Host and plugin have the same clock, but somebody may set it back a little
// meanwhile. The end is far away, because a plugin runs as long as its host
// wants.
constexpr long kBeforeSeconds = -3600;
constexpr int kDays = 365 * 30;

template <auto Free>
struct Freer {
  template <typename T>
  void operator()(T* object) const {
    Free(object);
  }
};
using Key = std::unique_ptr<EVP_PKEY, Freer<&EVP_PKEY_free>>;
using X509Certificate = std::unique_ptr<X509, Freer<&X509_free>>;
using Extension = std::unique_ptr<X509_EXTENSION, Freer<&X509_EXTENSION_free>>;
using Bio = std::unique_ptr<BIO, Freer<&BIO_free_all>>;

Error Failed(const char* step) {
  return MakeError(Code::kInternal, "certificate", step, "libcrypto failed");
}

bool SetSerial(X509* certificate) {
  std::array<unsigned char, 16> bytes{};
  if (::RAND_bytes(bytes.data(), static_cast<int>(bytes.size())) != 1) {
    return false;
  }
  bytes[0] &= 0x7fU;  // a serial number is positive
  using Number = std::unique_ptr<BIGNUM, Freer<&BN_free>>;
  const Number number(
      ::BN_bin2bn(bytes.data(), static_cast<int>(bytes.size()), nullptr));
  return number != nullptr &&
         ::BN_to_ASN1_INTEGER(number.get(),
                              ::X509_get_serialNumber(certificate)) != nullptr;
}

bool SetTimes(X509* certificate) {
  return ::X509_gmtime_adj(::X509_getm_notBefore(certificate),
                           kBeforeSeconds) != nullptr &&
         ::X509_time_adj_ex(::X509_getm_notAfter(certificate), kDays, 0,
                            nullptr) != nullptr;
}

// Sets the name of the subject. The issuer has the same name, because the
// certificate signs itself.
bool SetNames(X509* certificate) {
  X509_NAME* name = ::X509_get_subject_name(certificate);
  const auto* host = reinterpret_cast<const unsigned char*>("localhost");
  return ::X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, host, -1, -1,
                                      0) == 1 &&
         ::X509_set_issuer_name(certificate, name) == 1;
}

bool AddExtension(X509* certificate, int id, const char* value) {
  X509V3_CTX context = {};
  X509V3_set_ctx(&context, certificate, certificate, nullptr, nullptr, 0);
  const Extension extension(
      ::X509V3_EXT_conf_nid(nullptr, &context, id, value));
  return extension != nullptr &&
         ::X509_add_ext(certificate, extension.get(), -1) == 1;
}

bool Fill(X509* certificate, EVP_PKEY* key) {
  return ::X509_set_version(certificate, kVersion3) == 1 &&
         SetSerial(certificate) && SetTimes(certificate) &&
         SetNames(certificate) && ::X509_set_pubkey(certificate, key) == 1 &&
         AddExtension(certificate, NID_basic_constraints, "critical,CA:TRUE") &&
         AddExtension(certificate, NID_key_usage,
                      "critical,digitalSignature,keyAgreement,keyCertSign") &&
         AddExtension(certificate, NID_ext_key_usage,
                      "serverAuth,clientAuth") &&
         AddExtension(certificate, NID_subject_alt_name, "DNS:localhost") &&
         ::X509_sign(certificate, key, ::EVP_sha256()) != 0;
}

std::string TextOf(const Bio& bio) {
  char* bytes = nullptr;
  const long size = BIO_get_mem_data(bio.get(), &bytes);
  return size > 0 ? std::string(bytes, static_cast<std::size_t>(size)) : "";
}

}  // namespace

Result<Certificate> MakeCertificate() {
  const Key key(EVP_EC_gen("P-256"));
  const X509Certificate certificate(::X509_new());
  if (key == nullptr || certificate == nullptr ||
      !Fill(certificate.get(), key.get())) {
    return Failed("make");
  }
  const Bio pem(::BIO_new(::BIO_s_mem()));
  const Bio der(::BIO_new(::BIO_s_mem()));
  const Bio key_pem(::BIO_new(::BIO_s_mem()));
  if (::PEM_write_bio_X509(pem.get(), certificate.get()) != 1 ||
      ::i2d_X509_bio(der.get(), certificate.get()) != 1 ||
      ::PEM_write_bio_PrivateKey(key_pem.get(), key.get(), nullptr, nullptr, 0,
                                 nullptr, nullptr) != 1) {
    return Failed("write");
  }
  return Certificate{TextOf(pem), TextOf(der), TextOf(key_pem)};
}

}  // namespace mountd::goplugin
