#include "parascale/protocol/frame.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <thread>
#include <vector>

#include "tests/support/matchers.h"

namespace parascale::protocol {
namespace {

using parascale::testing::is_error;
using parascale::testing::is_ok;
using parascale::testing::is_ok_and_holds;

std::string raw_frame(std::uint32_t kind, std::uint32_t length, std::string_view payload) {
  std::string bytes(8, '\0');
  std::memcpy(bytes.data(), &length, 4);
  std::memcpy(bytes.data() + 4, &kind, 4);
  return bytes.append(payload);
}

std::string raw_frame(std::string_view payload) { return raw_frame(0, static_cast<std::uint32_t>(payload.size()), payload); }

/// Two connected channels; the other end also as a bare descriptor, for a peer that does not keep the rules.
class ChannelTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto ends = make_socket_pair().value();
    ours_ = Channel(std::move(ends.first));
    theirs_ = std::move(ends.second);
  }
  void write_raw(std::string_view bytes) const {
    ASSERT_EQ(::send(theirs_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL), static_cast<ssize_t>(bytes.size()));
  }

  Channel ours_{UniqueFd()};
  UniqueFd theirs_;
};

TEST(ParseFrameTest, ReadsOneFrameAndItsSize) {
  const std::string bytes = raw_frame(R"({"type":"stop","deadline":5})") + "rest";
  const auto parsed = parse_frame(bytes);
  ASSERT_THAT(parsed, is_ok());
  ASSERT_TRUE(parsed->has_value());
  EXPECT_EQ((*parsed)->size_bytes, bytes.size() - 4);
  EXPECT_THAT((*parsed)->message.get<std::int64_t>("deadline"), is_ok_and_holds(5));
}

TEST(ParseFrameTest, EveryPrefixIsTooShortToTell) {
  const std::string bytes = raw_frame(R"({"type":"stop"})");
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    const auto parsed = parse_frame(std::string_view(bytes).substr(0, size));
    ASSERT_THAT(parsed, is_ok()) << size;
    EXPECT_FALSE(parsed->has_value()) << size;
  }
}

TEST(ParseFrameTest, RefusesWhatBreaksTheRules) {
  struct Case {
    const char* what;
    std::string bytes;
  };
  const std::vector<Case> cases = {
      {"oversized length, before the payload is there", raw_frame(0, kMaxFrameBytes + 1, "")},
      {"largest length of all", raw_frame(0, ~0U, "")},
      {"unknown kind", raw_frame(1, 2, "{}")},
      {"no payload", raw_frame("")},
      {"garbage", raw_frame("garbage")},
      {"cut JSON", raw_frame(R"({"type":"st)")},
      {"JSON with a tail", raw_frame(R"({"type":"stop"} x)")},
      {"no object", raw_frame(R"(["type"])")},
      {"no type", raw_frame(R"({"kind":"stop"})")},
      {"type is no text", raw_frame(R"({"type":7})")},
      {"empty type", raw_frame(R"({"type":""})")},
      {"type twice", raw_frame(R"({"type":"a","type":"b"})")},
      {"not UTF-8", raw_frame("{\"type\":\"\xff\"}")},
      {"too deep", raw_frame(R"({"type":"a","x":)" + std::string(40, '[') + std::string(40, ']') + "}")},
  };
  for (const auto& [what, bytes] : cases) {
    EXPECT_THAT(parse_frame(bytes), is_error(Code::protocol_violation)) << what;
  }
}

TEST_F(ChannelTest, RoundTripKeepsNumbersAndText) {
  Channel peer(std::move(theirs_));
  const Json message = Json::object({{"type", "x"}, {"big", UINT64_MAX}, {"text", "a\"\n\xc3\xa9"}, {"lr", 0.1}});
  ASSERT_THAT(peer.send(message), is_ok());
  const auto frame = ours_.receive();
  ASSERT_THAT(frame, is_ok());
  ASSERT_TRUE(frame->has_value());
  EXPECT_EQ((*frame)->message, message);
  EXPECT_EQ((*frame)->type(), "x");
  EXPECT_TRUE((*frame)->descriptors.empty());
}

TEST_F(ChannelTest, FramesArriveByteByByte) {
  const std::string bytes = raw_frame(R"({"type":"a"})") + raw_frame(R"({"type":"b"})");
  std::vector<std::string> types;
  for (const char byte : bytes) {
    write_raw({&byte, 1});
    ASSERT_THAT(ours_.read_available(), is_ok_and_holds(true));
    auto frame = ours_.take();
    ASSERT_THAT(frame, is_ok());
    if (*frame) {
      types.push_back((*frame)->type());
    }
  }
  EXPECT_THAT(types, ::testing::ElementsAre("a", "b"));
}

TEST_F(ChannelTest, QueuedFramesLeaveWithOneFlushInOrder) {
  Channel peer(std::move(theirs_));
  peer.queue(Json::object({{"type", "a"}}));
  peer.queue(Json::object({{"type", "b"}}));
  EXPECT_TRUE(peer.has_queued());
  EXPECT_THAT(ours_.read_available(), is_ok_and_holds(true));  // nothing yet is not the end
  const auto nothing = ours_.take();
  ASSERT_THAT(nothing, is_ok());
  EXPECT_FALSE(nothing->has_value());
  ASSERT_THAT(peer.send(Json::object({{"type", "c"}})), is_ok());
  EXPECT_FALSE(peer.has_queued());
  for (const char* type : {"a", "b", "c"}) {
    EXPECT_EQ(ours_.receive().value()->type(), type);
  }
}

TEST_F(ChannelTest, AFrameLargerThanTheSocketBufferArrivesWhole) {
  Channel peer(std::move(theirs_));
  const Json message = Json::object({{"type", "big"}, {"text", std::string(4 << 20, 'x')}});
  std::jthread sender([&] { EXPECT_THAT(peer.send(message), is_ok()); });
  const auto frame = ours_.receive();
  ASSERT_THAT(frame, is_ok());
  EXPECT_EQ((*frame)->message, message);
}

TEST_F(ChannelTest, ThePeerClosingBetweenFramesIsTheEnd) {
  write_raw(raw_frame(R"({"type":"bye"})"));
  theirs_.reset();
  const auto last = ours_.receive();
  ASSERT_THAT(last, is_ok());
  EXPECT_EQ((*last)->type(), "bye");
  const auto end = ours_.receive();
  ASSERT_THAT(end, is_ok());
  EXPECT_FALSE(end->has_value());
  EXPECT_THAT(ours_.read_available(), is_ok_and_holds(false));
}

TEST_F(ChannelTest, ThePeerClosingInsideAFrameIsAViolation) {
  const std::string bytes = raw_frame(R"({"type":"bye"})");
  for (const std::size_t size : {1UL, 8UL, bytes.size() - 1}) {
    auto ends = make_socket_pair().value();
    Channel channel(std::move(ends.first));
    ASSERT_EQ(::send(ends.second.get(), bytes.data(), size, 0), static_cast<ssize_t>(size));
    ends.second.reset();
    EXPECT_THAT(channel.receive(), is_error(Code::protocol_violation)) << size;
  }
}

TEST_F(ChannelTest, SendingToAClosedPeerIsAnErrorAndNoSignal) {
  theirs_.reset();
  EXPECT_THAT(ours_.send(Json::object({{"type", "a"}})), is_error(Code::io_failed));
  EXPECT_FALSE(ours_.has_queued());
}

TEST_F(ChannelTest, AViolationStaysOne) {
  write_raw(raw_frame("garbage") + raw_frame(R"({"type":"a"})"));
  EXPECT_THAT(ours_.receive(), is_error(Code::protocol_violation));
  EXPECT_THAT(ours_.receive(), is_error(Code::protocol_violation));  // nothing after it is believed
}

// --- descriptors ---

/// A pipe whose write end is sent; what is written into the received descriptor tells which one it was.
struct Pipe {
  UniqueFd read_end, write_end;
  static Pipe make() {
    int ends[2];
    PS_CHECK(pipe2(ends, O_CLOEXEC | O_NONBLOCK) == 0, "a pipe can be made");
    return {.read_end = UniqueFd(ends[0]), .write_end = UniqueFd(ends[1])};
  }
  /// Whether `fd` is another name of this pipe's write end.
  bool is_fed_by(const UniqueFd& fd) const {
    char byte = 'x';
    return ::write(fd.get(), &byte, 1) == 1 && ::read(read_end.get(), &byte, 1) == 1;
  }
};

TEST_F(ChannelTest, DescriptorsBelongToTheFrameThatAnnouncesThem) {
  Channel peer(std::move(theirs_));
  const Pipe first = Pipe::make();
  const Pipe second = Pipe::make();
  const Pipe third = Pipe::make();
  // All is read in as few system calls as the kernel likes: the descriptors must still find their frames.
  ASSERT_THAT(peer.send(Json::object({{"type", "plain"}})), is_ok());
  ASSERT_THAT(peer.send(Json::object({{"type", "two"}, {"descriptors", 2}}), {first.write_end.get(), second.write_end.get()}),
              is_ok());
  ASSERT_THAT(peer.send(Json::object({{"type", "plain"}})), is_ok());
  ASSERT_THAT(peer.send(Json::object({{"type", "one"}, {"descriptors", 1}}), {third.write_end.get()}), is_ok());
  EXPECT_TRUE(ours_.receive().value()->descriptors.empty());
  const auto two = ours_.receive();
  ASSERT_EQ((*two)->descriptors.size(), 2U);
  EXPECT_TRUE(first.is_fed_by((*two)->descriptors[0]));
  EXPECT_TRUE(second.is_fed_by((*two)->descriptors[1]));
  EXPECT_TRUE(ours_.receive().value()->descriptors.empty());
  const auto one = ours_.receive();
  ASSERT_EQ((*one)->descriptors.size(), 1U);
  EXPECT_TRUE(third.is_fed_by((*one)->descriptors[0]));
  EXPECT_NE(fcntl((*one)->descriptors[0].get(), F_GETFD) & FD_CLOEXEC, 0);
}

TEST_F(ChannelTest, AnnouncedDescriptorsThatDidNotComeAreAViolation) {
  write_raw(raw_frame(R"({"type":"region","descriptors":1})"));
  EXPECT_THAT(ours_.receive(), is_error(Code::protocol_violation));
}

TEST_F(ChannelTest, TheNumberOfDescriptorsMustBeANumber) {
  write_raw(raw_frame(R"({"type":"region","descriptors":"many"})"));
  EXPECT_THAT(ours_.receive(), is_error(Code::protocol_violation));
}

TEST_F(ChannelTest, MoreDescriptorsThanAFrameMayCarryAreAViolation) {
  const Pipe pipe = Pipe::make();
  const std::string bytes = raw_frame(R"({"type":"region","descriptors":1})");
  constexpr std::size_t kMany = kMaxFrameDescriptors + 4;
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int) * kMany)> control{};
  std::string payload = bytes;
  iovec part{.iov_base = payload.data(), .iov_len = payload.size()};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  header.msg_control = control.data();
  header.msg_controllen = control.size();
  cmsghdr* rights = CMSG_FIRSTHDR(&header);
  ASSERT_NE(rights, nullptr);
  rights->cmsg_level = SOL_SOCKET;
  rights->cmsg_type = SCM_RIGHTS;
  rights->cmsg_len = CMSG_LEN(sizeof(int) * kMany);
  for (std::size_t i = 0; i < kMany; ++i) {
    const int fd = pipe.write_end.get();
    std::memcpy(CMSG_DATA(rights) + i * sizeof fd, &fd, sizeof fd);
  }
  ASSERT_EQ(sendmsg(theirs_.get(), &header, 0), static_cast<ssize_t>(bytes.size()));
  EXPECT_THAT(ours_.receive(), is_error(Code::protocol_violation));
}

TEST(SocketPairTest, BothEndsAreCloseOnExec) {
  const auto ends = make_socket_pair().value();
  EXPECT_NE(fcntl(ends.first.get(), F_GETFD) & FD_CLOEXEC, 0);
  EXPECT_NE(fcntl(ends.second.get(), F_GETFD) & FD_CLOEXEC, 0);
}

}  // namespace
}  // namespace parascale::protocol
