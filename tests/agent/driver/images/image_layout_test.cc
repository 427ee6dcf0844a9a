// SPDX-License-Identifier: LGPL-2.1-or-later
#include "agent/driver/images/image_layout.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "agent/driver/images/beneath.h"
#include "agent/driver/images/digest.h"
#include "tests/support/matchers.h"
#include "tests/support/temp_directory.h"

namespace mountd::driver {
namespace {

class ImageLayout : public ::testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::create_directories(directory_.File("blobs/sha256"));
    ASSERT_OK_AND_ASSIGN(tree_, OpenTree(directory_.File(".")));
  }
  void Write(const std::string& name, const std::string& text) {
    std::ofstream(directory_.File(name)) << text;
  }
  static std::string Entry(const std::string& digest, std::size_t size,
                           const std::string& tag = "") {
    return R"({"mediaType":"application/vnd.oci.image.layer.v1.tar","digest":")" +
           digest + R"(","size":)" + std::to_string(size) +
           (tag.empty()
                ? ""
                : R"(,"annotations":{"org.opencontainers.image.ref.name":")" +
                      tag + "\"}") +
           "}";
  }
  // Writes a blob and returns its descriptor.
  Descriptor Blob(const std::string& bytes) {
    Descriptor blob{"", Sha256Hex(bytes), bytes.size()};
    Write("blobs/sha256/" + blob.digest, bytes);
    return blob;
  }

  TempDirectory directory_;
  UniqueFd tree_;
  const std::string digest_ = "sha256:" + std::string(64, 'a');
};

TEST_F(ImageLayout, FindsAnImageByItsTag) {
  Write("index.json", R"({"manifests":[)" + Entry(digest_, 7, "one") + "," +
                          Entry("sha256:" + std::string(64, 'b'), 8, "two") +
                          "]}");
  ASSERT_OK_AND_ASSIGN(const Descriptor two,
                       FindImage(tree_.get(), "two", "image"));
  EXPECT_EQ(two.digest, std::string(64, 'b'));
  EXPECT_EQ(two.size, 8U);
  EXPECT_THAT(FindImage(tree_.get(), "", "image"),
              IsErrOf(Code::kInvalidArgument, "several images"));
  EXPECT_THAT(FindImage(tree_.get(), "three", "image"), IsErr(Code::kNotFound));
}

TEST_F(ImageLayout, RefusesDigestsThatAreNoFileName) {
  for (const char* digest :
       {"", "sha256:", "sha256:../../../etc/passwd", "sha512:aa",
        "sha256:"
        "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"}) {
    Write("index.json", R"({"manifests":[)" + Entry(digest, 7) + "]}");
    EXPECT_THAT(FindImage(tree_.get(), "", "image"),
                IsErrOf(Code::kInvalidArgument, "digest"))
        << digest;
  }
}

TEST_F(ImageLayout, RefusesAnIndexThatIsNoFileOrNoIndex) {
  EXPECT_THAT(FindImage(tree_.get(), "", "image"), IsErr(Code::kNotFound));
  ASSERT_EQ(::mkfifo(directory_.File("index.json").c_str(), 0600), 0);
  EXPECT_THAT(FindImage(tree_.get(), "", "image"),
              IsErrOf(Code::kInvalidArgument, "regular file"));
  ::unlink(directory_.File("index.json").c_str());
  for (const char* text :
       {"", "[]", "{}", R"({"manifests":{}})", R"({"manifests":[7]})",
        R"({"manifests":[{"digest":7}]})"}) {
    Write("index.json", text);
    EXPECT_THAT(FindImage(tree_.get(), "", "image"),
                IsErr(Code::kInvalidArgument))
        << text;
  }
}

TEST_F(ImageLayout, ComparesABlobWithItsDescriptor) {
  Descriptor blob = Blob("{}");
  EXPECT_THAT(ReadBlob(tree_.get(), blob, "image"), IsOk());
  ++blob.size;
  EXPECT_THAT(ReadBlob(tree_.get(), blob, "image"), IsErr(Code::kAborted));
  --blob.size;
  Write("blobs/sha256/" + blob.digest, "[]");
  EXPECT_THAT(ReadBlob(tree_.get(), blob, "image"), IsErr(Code::kAborted));
  blob.size = ~std::uint64_t{0};
  EXPECT_THAT(ReadBlob(tree_.get(), blob, "image"),
              IsErr(Code::kInvalidArgument));
}

TEST_F(ImageLayout, BoundsTheNumberOfLayers) {
  std::string layers = Entry(digest_, 7);
  for (int i = 0; i < 5000; ++i) {
    layers += "," + Entry(digest_, 7);
  }
  const Descriptor manifest = Blob(R"({"config":)" + Entry(digest_, 7) +
                                   R"(,"layers":[)" + layers + "]}");
  EXPECT_THAT(ReadManifest(tree_.get(), manifest, "image"),
              IsErrOf(Code::kResourceExhausted, "5001 layers"));
}

TEST_F(ImageLayout, RefusesACompressionThatUmociDoesNotRead) {
  const std::string layer =
      R"({"mediaType":"application/vnd.oci.image.layer.v1.tar+zstd","digest":")" +
      digest_ + R"(","size":7})";
  const Descriptor manifest = Blob(R"({"config":)" + Entry(digest_, 7) +
                                   R"(,"layers":[)" + layer + "]}");
  EXPECT_THAT(ReadManifest(tree_.get(), manifest, "image"),
              IsErrOf(Code::kNotSupported, "tar+zstd"));
}

}  // namespace
}  // namespace mountd::driver
