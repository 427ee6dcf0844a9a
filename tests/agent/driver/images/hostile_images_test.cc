// SPDX-License-Identifier: LGPL-2.1-or-later
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "agent/driver/images/beneath.h"
#include "agent/driver/images/task_user.h"
#include "tests/agent/driver/images/store_fixture.h"
#include "tests/support/matchers.h"
#include "tests/support/naive.h"
#include "tests/support/program.h"

namespace mountd::driver::test {
namespace {

// Images whose author attacks the machine of the one who runs them. Each test
// looks at a file outside of the image, or at the bound that the image has to
// meet.
class HostileImage : public StoreTest {
 protected:
  void SetUp() override {
    StoreTest::SetUp();
    std::filesystem::create_directory(File("outside"));
    WriteFile(File("outside/secret"), "secret");
  }
  // Prepares an image of these layers.
  Result<Image> Unpack(const std::vector<std::vector<TarMember>>& layers) {
    return UnpackWith(Options(), layers);
  }
  Result<Image> UnpackWith(const ImageStoreOptions& options,
                           const std::vector<std::vector<TarMember>>& layers) {
    std::vector<std::string> tars;
    for (const std::vector<TarMember>& layer : layers) {
      tars.push_back(Tar(layer));
    }
    LayoutWriter(File("layout")).Add("v1", tars);
    return PrepareWith(options, Reference());
  }
  std::string Reference() const { return "oci:" + File("layout") + ":v1"; }
  // Says whether the files outside of the image are as they were.
  void ExpectOutsideUntouched() {
    EXPECT_EQ(ReadWholeFile(File("outside/secret")), "secret");
    int names = 0;
    for (const auto& entry :
         std::filesystem::directory_iterator(File("outside"))) {
      static_cast<void>(entry);
      ++names;
    }
    EXPECT_EQ(names, 1);
    struct stat facts {};
    ASSERT_EQ(::stat(File("outside/secret").c_str(), &facts), 0);
    EXPECT_EQ(facts.st_uid, kUser);
    EXPECT_EQ(facts.st_nlink, 1U);
    EXPECT_THAT(Work(), ::testing::ElementsAre());
  }
  // Unpacks members as one would at first, by tar with the names as they are.
  // Returns the directory.
  std::string NaivelyUnpack(const std::vector<TarMember>& members) {
    std::filesystem::remove_all(File("naive"));
    std::filesystem::create_directory(File("naive"));
    WriteFile(File("naive.tar"), Tar(members));
    mountd::test::RunProgram(
        {"/bin/tar", "-P", "-C", File("naive"), "-xf", File("naive.tar")});
    return File("naive");
  }
  // Says whether a file came into the directory outside, and removes it.
  bool HasEvil() const { return std::filesystem::remove(File("outside/evil")); }
  // Path of `name` for a member, relative from any depth.
  std::string Up(const std::string& name) const {
    return "../../../../../../../.." + File(name);
  }
};

TEST_F(HostileImage, NamesWithDotsStayInTheImage) {
  NaivelyUnpack({TarFile(Up("outside/evil"), "x")});
  EXPECT_NAIVE(HasEvil());
  NaivelyUnpack({TarFile(File("outside/evil"), "x")});
  EXPECT_NAIVE(HasEvil());
  IgnoreBecauseBestEffort(Unpack(
      {{TarFile(Up("outside/evil"), "x"), TarFile(File("outside/evil"), "x"),
        TarFile("a/../../../../evil", "x")}}));
  ExpectOutsideUntouched();
}

TEST_F(HostileImage, WritesThroughALinkStayInTheImage) {
  NaivelyUnpack({TarSymlink("out", File("outside")), TarFile("out/evil", "x")});
  EXPECT_NAIVE(HasEvil());
  IgnoreBecauseBestEffort(
      Unpack({{TarSymlink("out", File("outside")), TarFile("out/evil", "x"),
               TarFile("out/secret", "changed")},
              {TarFile("out/evil", "x")}}));
  ExpectOutsideUntouched();
}

TEST_F(HostileImage, RelativeLinksStayInTheImage) {
  NaivelyUnpack({TarSymlink("out", Up("outside")), TarFile("out/evil", "x")});
  EXPECT_NAIVE(HasEvil());
  IgnoreBecauseBestEffort(
      Unpack({{TarSymlink("out", Up("outside")), TarFile("out/evil", "x"),
               TarDirectory("out/directory")}}));
  ExpectOutsideUntouched();
}

TEST_F(HostileImage, TheRootItselfAsALinkStaysInTheImage) {
  const Result<Image> image =
      Unpack({{TarSymlink(".", File("outside")), TarFile("evil", "x")},
              {TarSymlink("./", File("outside")), TarFile("evil", "x")}});
  ExpectOutsideUntouched();
  if (image) {
    EXPECT_FALSE(std::filesystem::is_symlink(image->rootfs));
  }
}

TEST_F(HostileImage, HardLinksReachNothingOutside) {
  const std::string naive =
      NaivelyUnpack({TarHardLink("one", Up("outside/secret"))});
  EXPECT_NAIVE(std::filesystem::hard_link_count(File("outside/secret")) == 2);
  std::filesystem::remove_all(naive);
  IgnoreBecauseBestEffort(Unpack({{TarHardLink("one", Up("outside/secret"))}}));
  ExpectOutsideUntouched();
  IgnoreBecauseBestEffort(
      Unpack({{TarSymlink("out", File("outside")),
               TarHardLink("two", "out/secret"), TarFile("two", "changed")}}));
  ExpectOutsideUntouched();
}

TEST_F(HostileImage, HardLinksWithAWholePathReachNothingOutside) {
  const std::string naive =
      NaivelyUnpack({TarHardLink("one", File("outside/secret"))});
  EXPECT_NAIVE(std::filesystem::hard_link_count(File("outside/secret")) == 2);
  std::filesystem::remove_all(naive);
  IgnoreBecauseBestEffort(Unpack({{TarHardLink("one", File("outside/secret")),
                                   TarFile("one", "changed")}}));
  ExpectOutsideUntouched();
  IgnoreBecauseBestEffort(
      Unpack({{TarHardLink(Up("outside/evil"), "/etc/passwd")},
              {TarHardLink(File("outside/evil"), "one")}}));
  ExpectOutsideUntouched();
}

TEST_F(HostileImage, WhiteoutsRemoveNothingOutside) {
  IgnoreBecauseBestEffort(
      Unpack({{TarSymlink("out", File("outside"))},
              {TarFile("out/.wh.secret", ""), TarFile("out/.wh..wh..opq", ""),
               TarFile(Up("outside/.wh.secret"), "")}}));
  ExpectOutsideUntouched();
  IgnoreBecauseBestEffort(Unpack(
      {{TarFile("a", "x")}, {TarFile(".wh...", ""), TarFile(".wh..", "")}}));
  ExpectOutsideUntouched();
}

TEST_F(HostileImage, DeviceNodesAreEmptyFiles) {
  TarMember disk{"disk", '4'};
  disk.major = 8;
  disk.mode = 0666;
  TarMember memory{"mem", '3'};
  memory.major = 1;
  memory.minor = 1;
  ASSERT_OK_AND_ASSIGN(const Image image, Unpack({{disk, memory}}));
  EXPECT_THAT(FactsOf(image.rootfs + "/disk"),
              ::testing::EndsWith("regular empty file"));
  EXPECT_THAT(FactsOf(image.rootfs + "/mem"),
              ::testing::EndsWith("regular empty file"));
}

TEST_F(HostileImage, SetuidFilesAreInADirectoryOfThisUserAlone) {
  ASSERT_OK_AND_ASSIGN(const Image image,
                       Unpack({{TarFile("su", "x", 06755)}}));
  struct stat facts {};
  ASSERT_EQ(::stat(File("images").c_str(), &facts), 0);
  EXPECT_EQ(facts.st_mode & 07777U, 0700U);
  EXPECT_EQ(FactsOf(image.rootfs + "/su"), "0:0 8ded regular file");
}

TEST_F(HostileImage, IdsOutsideOfTheNamespaceAreRefused) {
  TarMember file = TarFile("file", "x");
  file.uid = kSubids + 1;
  EXPECT_THAT(Unpack({{file}}), IsErrOf(Code::kInvalidArgument, "/etc/subuid"));
  ExpectOutsideUntouched();
}

TEST_F(HostileImage, AUsersFileThatLeadsOutIsTheImagesOwn) {
  WriteFile(File("outside/passwd"), "evil:x:0:0::/:/bin/sh\n");
  ASSERT_OK_AND_ASSIGN(
      const Image image,
      Unpack({{TarSymlink("etc/passwd", File("outside/passwd"))}}));
  EXPECT_NAIVE(ReadWholeFile(image.rootfs + "/etc/passwd").starts_with("evil"));
  ASSERT_OK_AND_ASSIGN(const UniqueFd root, OpenTree(image.rootfs));
  EXPECT_THAT(ResolveUser(root.get(), "evil"), ::testing::Not(IsOk()));
  std::filesystem::remove(File("outside/passwd"));
}

TEST_F(HostileImage, AFifoForPasswdDoesNotWait) {
  ASSERT_OK_AND_ASSIGN(const Image image,
                       Unpack({{TarMember{"etc/passwd", '6'}}}));
  ASSERT_OK_AND_ASSIGN(const UniqueFd root, OpenTree(image.rootfs));
  EXPECT_THAT(ResolveUser(root.get(), "www"),
              IsErrOf(Code::kInvalidArgument, "regular file"));
}

TEST_F(HostileImage, OneHugeFileMeetsTheBound) {
  ImageStoreOptions options = Options();
  options.max_bytes = 4 << 20;
  const std::string naive =
      NaivelyUnpack({TarFile("huge", std::string(8 << 20, 'x'))});
  EXPECT_NAIVE(std::filesystem::file_size(naive + "/huge") > options.max_bytes);
  EXPECT_THAT(
      UnpackWith(options, {{TarFile("huge", std::string(8 << 20, 'x'))}}),
      IsErrOf(Code::kResourceExhausted, "give a smaller image"));
  ExpectOutsideUntouched();
}

TEST_F(HostileImage, ManyLargeFilesMeetTheBound) {
  ImageStoreOptions options = Options();
  options.max_bytes = 4 << 20;
  std::vector<TarMember> files;
  for (int i = 0; i < 8; ++i) {
    files.push_back(
        TarFile("f" + std::to_string(i), std::string(1 << 20, 'x')));
  }
  EXPECT_THAT(UnpackWith(options, {files}), IsErr(Code::kResourceExhausted));
  ExpectOutsideUntouched();
}

TEST_F(HostileImage, ManyEmptyFilesMeetTheBound) {
  ImageStoreOptions options = Options();
  options.max_files = 500;
  std::vector<TarMember> files;
  for (int i = 0; i < 1000; ++i) {
    files.push_back(TarFile("f" + std::to_string(i), ""));
  }
  EXPECT_THAT(UnpackWith(options, {files}), IsErr(Code::kResourceExhausted));
  ExpectOutsideUntouched();
}

// A gzip of some kilobytes becomes files of 60 MB.
TEST_F(HostileImage, ABombMeetsTheBound) {
  ImageStoreOptions options = Options();
  options.max_bytes = 16 << 20;
  std::vector<TarMember> files;
  for (int i = 0; i < 6; ++i) {
    files.push_back(
        TarFile("f" + std::to_string(i), std::string(10 << 20, '\0')));
  }
  EXPECT_THAT(UnpackWith(options, {files}), IsErr(Code::kResourceExhausted));
  ExpectOutsideUntouched();
}

// The bounds hold while a program runs, not only once it has ended.
TEST_F(HostileImage, AnUnpackWithoutEndMeetsEachBound) {
  ImageStoreOptions options = Options();
  options.max_bytes = 16 << 20;
  options.max_files = 3000;
  for (const char* write :
       {"head -c 1000000 /dev/zero >image/$i", ": >image/$i"}) {
    options.umoci =
        Wrapper("umoci",
                "i=0; while :; do i=$((i+1)); " + std::string(write) + "; done",
                "/bin/false");
    EXPECT_THAT(UnpackWith(options, {{TarFile("a", "x")}}),
                IsErrOf(Code::kResourceExhausted, "give a smaller image"))
        << write;
    ExpectOutsideUntouched();
  }
}

TEST_F(HostileImage, ThousandsOfLayersAreRefused) {
  LayoutWriter writer(File("layout"));
  const std::string layer = Tar({TarFile("a", "x")});
  const std::string blob = writer.Blob(LayoutWriter::kGzip, writer.Gzip(layer));
  std::string ids = "\"sha256:" + std::string(64, '0') + "\"";
  for (int i = 1; i < 2000; ++i) {
    ids += ",\"sha256:" + std::string(64, '0') + "\"";
  }
  writer.AddLayers(
      "v1", std::vector<std::string>(2000, blob),
      R"({"os":"linux","rootfs":{"type":"layers","diff_ids":[)" + ids + "]}}");
  EXPECT_THAT(Prepare(Reference()),
              IsErrOf(Code::kResourceExhausted, "2000 layers"));
  ExpectOutsideUntouched();
}

TEST_F(HostileImage, ALayerOfOtherBytesIsRefused) {
  const std::string tar = Tar({TarFile("a", "x")});
  LayoutWriter writer(File("layout"));
  writer.Add("v1", {tar});
  const std::string other = writer.Gzip(Tar({TarFile("a", "evil")}));
  for (const auto& entry :
       std::filesystem::directory_iterator(File("layout/blobs/sha256"))) {
    if (ReadWholeFile(entry.path()).starts_with("\x1f\x8b")) {
      WriteFile(entry.path(), other);
    }
  }
  EXPECT_THAT(Prepare(Reference()), ::testing::Not(IsOk()));
  ExpectOutsideUntouched();
}

TEST_F(HostileImage, AManifestOfOtherBytesOrSizeIsRefused) {
  LayoutWriter writer(File("layout"));
  const std::string digest = writer.Add("v1", {Tar({TarFile("a", "x")})});
  const std::string path = File("layout/blobs/sha256/" + digest);
  const std::string manifest = ReadWholeFile(path);
  WriteFile(path, manifest + " ");
  EXPECT_THAT(Prepare(Reference()), IsErrOf(Code::kAborted, "other bytes"));
  std::string changed = manifest;
  changed[changed.find("tar+gzip")] = 'T';
  WriteFile(path, changed);
  EXPECT_THAT(Prepare(Reference()), IsErrOf(Code::kAborted, "other bytes"));
  ExpectOutsideUntouched();
}

// An index may name another index, so a naive reader follows them for ever.
TEST_F(HostileImage, AnIndexOfAnIndexIsRefused) {
  constexpr char kIndexType[] = "application/vnd.oci.image.index.v1+json";
  LayoutWriter writer(File("layout"));
  writer.Add("v1", {Tar({TarFile("a", "x")})});
  std::string inner = ReadWholeFile(File("layout/index.json"));
  for (int depth = 0; depth < 3; ++depth) {
    inner = R"({"schemaVersion":2,"manifests":[)" +
            writer.Blob(kIndexType, inner) + "]}";
  }
  WriteFile(File("layout/index.json"), inner);
  EXPECT_THAT(Prepare("oci:" + File("layout")), IsErr(Code::kInvalidArgument));
  // The file of a digest may be the index itself, and a reader of names alone
  // then never ends.
  const std::string self(64, 'a');
  WriteFile(File("layout/index.json"),
            R"({"schemaVersion":2,"manifests":[{"mediaType":")" +
                std::string(kIndexType) + R"(","digest":"sha256:)" + self +
                R"(","size":2}]})");
  std::filesystem::create_symlink("../../index.json",
                                  File("layout/blobs/sha256/" + self));
  EXPECT_THAT(Prepare("oci:" + File("layout")), ::testing::Not(IsOk()));
  ExpectOutsideUntouched();
}

TEST_F(HostileImage, AMissingBlobIsRefused) {
  std::vector<std::string> blobs;
  LayoutWriter(File("layout")).Add("v1", {Tar({TarFile("a", "x")})});
  for (const auto& entry :
       std::filesystem::directory_iterator(File("layout/blobs/sha256"))) {
    blobs.push_back(entry.path());
  }
  ASSERT_EQ(blobs.size(), 3U);  // manifest, configuration, layer
  for (const std::string& blob : blobs) {
    std::filesystem::rename(blob, File("away"));
    EXPECT_THAT(Prepare(Reference()), ::testing::Not(IsOk())) << blob;
    ExpectOutsideUntouched();
    // A FIFO, a directory or a link in its place is no blob either.
    ASSERT_EQ(::mkfifo(blob.c_str(), 0600), 0);
    EXPECT_THAT(Prepare(Reference()), ::testing::Not(IsOk())) << blob;
    std::filesystem::remove(blob);
    std::filesystem::create_directory(blob);
    EXPECT_THAT(Prepare(Reference()), ::testing::Not(IsOk())) << blob;
    std::filesystem::remove(blob);
    ExpectOutsideUntouched();
    std::filesystem::rename(File("away"), blob);
  }
  EXPECT_THAT(Prepare(Reference()), IsOk());
}

TEST_F(HostileImage, ALayerIsNoPathAndNoFifo) {
  LayoutWriter writer(File("layout"));
  writer.AddLayers("v1",
                   {R"({"mediaType":")" + std::string(LayoutWriter::kTar) +
                    R"(","digest":"sha256:../../../outside/secret","size":6})"},
                   R"({"os":"linux"})");
  EXPECT_THAT(Prepare(Reference()), ::testing::Not(IsOk()));
  ExpectOutsideUntouched();
}

TEST_F(HostileImage, ADeepConfigurationIsRefused) {
  LayoutWriter writer(File("layout"));
  const std::string layer = Tar({TarFile("a", "x")});
  writer.Add("v1", {layer}, std::string(5000, '[') + std::string(5000, ']'));
  EXPECT_THAT(Prepare(Reference()), IsErr(Code::kInvalidArgument));
  ExpectOutsideUntouched();
}

// The members of the archive itself, before skopeo looks at any blob.
TEST_F(HostileImage, AnArchiveOfLinksStaysInTheWorkingDirectory) {
  WriteFile(File("a.tar"),
            Tar({TarFile("oci-layout", R"({"imageLayoutVersion":"1.0.0"})"),
                 TarSymlink("index.json", File("outside/secret")),
                 TarSymlink("blobs", File("outside")),
                 TarFile("blobs/evil", "x"), TarFile(Up("outside/evil"), "x"),
                 TarHardLink("secret", Up("outside/secret"))}));
  EXPECT_THAT(Prepare("oci-archive:" + File("a.tar")), ::testing::Not(IsOk()));
  ExpectOutsideUntouched();
}

TEST_F(HostileImage, AnArchiveWithAHugeFileMeetsTheBound) {
  ImageStoreOptions options = Options();
  options.max_bytes = 16 << 20;
  WriteFile(File("a.tar"), Tar({TarFile("f", std::string(20 << 20, '\0'))}));
  EXPECT_THAT(PrepareWith(options, "oci-archive:" + File("a.tar")),
              IsErrOf(Code::kResourceExhausted, "give a smaller image"));
  ExpectOutsideUntouched();
}

TEST_F(HostileImage, ACopyWithoutEndMeetsTheBound) {
  ImageStoreOptions options = Options();
  options.max_bytes = 16 << 20;
  options.skopeo = Wrapper("skopeo",
                           "i=0; while :; do i=$((i+1)); "
                           "head -c 1000000 /dev/zero >$i; done",
                           "/bin/false");
  EXPECT_THAT(UnpackWith(options, {{TarFile("a", "x")}}),
              IsErrOf(Code::kResourceExhausted, "give a smaller image"));
  ExpectOutsideUntouched();
}

}  // namespace
}  // namespace mountd::driver::test
