#include "parascale/protocol/frame.h"

#include <fmt/core.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <bit>
#include <cerrno>
#include <cstring>

namespace parascale::protocol {

namespace {

constexpr std::size_t kHeaderBytes = 8;

std::uint32_t read_u32(std::string_view bytes, std::size_t at) {
  std::uint32_t value = 0;
  static_assert(std::endian::native == std::endian::little, "frames are little-endian");
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

void append_frame(std::string& out, const Json& message) {
  const std::string payload = message.dump();
  PS_CHECK(payload.size() <= kMaxFrameBytes, "a sent frame fits its limit");
  const auto length = static_cast<std::uint32_t>(payload.size());
  const std::uint32_t kind = 0;
  char header[kHeaderBytes];
  std::memcpy(header, &length, sizeof length);
  std::memcpy(header + sizeof length, &kind, sizeof kind);
  out.append(header, sizeof header);
  out += payload;
}

Error violation(std::string message) { return Error(Code::protocol_violation, std::move(message)); }

}  // namespace

std::string Frame::type() const {
  const Json* type = message.find("type");
  return type != nullptr && type->to_string() != nullptr ? *type->to_string() : std::string();
}

Result<std::optional<ParsedFrame>> parse_frame(std::string_view bytes) {
  if (bytes.size() < kHeaderBytes) {
    return std::optional<ParsedFrame>();
  }
  const std::uint32_t length = read_u32(bytes, 0);
  const std::uint32_t kind = read_u32(bytes, 4);
  if (length > kMaxFrameBytes) {
    return violation(fmt::format("frame announces {} bytes; the limit is {}", length, kMaxFrameBytes));
  }
  if (kind != 0) {
    return violation(fmt::format("frame has unknown kind {}", kind));
  }
  if (bytes.size() < kHeaderBytes + length) {
    return std::optional<ParsedFrame>();
  }
  auto message = parse_json(bytes.substr(kHeaderBytes, length), "frame", {.max_bytes = kMaxFrameBytes, .max_depth = 32});
  if (!message.ok()) {
    return message.error().wrap(Code::protocol_violation, "frame payload is not a JSON document");
  }
  const Json* type = message->find("type");
  if (type == nullptr || type->to_string() == nullptr || type->to_string()->empty()) {
    return violation("frame has no `type`");
  }
  return std::optional(ParsedFrame{.message = std::move(message).value(), .size_bytes = kHeaderBytes + length});
}

Channel::Channel(UniqueFd socket) : socket_(std::move(socket)) {}

Status Channel::send(const Json& message, const std::vector<int>& descriptors) {
  PS_CHECK(descriptors.size() <= kMaxFrameDescriptors, "a frame carries few descriptors");
  if (descriptors.empty()) {
    queue(message);
    return flush();
  }
  PS_TRY(flush());
  std::string bytes;
  append_frame(bytes, message);
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int) * kMaxFrameDescriptors)> control{};
  iovec part{.iov_base = bytes.data(), .iov_len = bytes.size()};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  header.msg_control = control.data();
  header.msg_controllen = CMSG_SPACE(sizeof(int) * descriptors.size());
  cmsghdr* rights = CMSG_FIRSTHDR(&header);
  PS_CHECK(rights != nullptr, "the control buffer holds a header");
  rights->cmsg_level = SOL_SOCKET;
  rights->cmsg_type = SCM_RIGHTS;
  rights->cmsg_len = CMSG_LEN(sizeof(int) * descriptors.size());
  std::memcpy(CMSG_DATA(rights), descriptors.data(), sizeof(int) * descriptors.size());
  ssize_t sent = 0;
  do {
    sent = sendmsg(socket_.get(), &header, MSG_NOSIGNAL);
  } while (sent < 0 && errno == EINTR);
  if (sent < 0) {
    return io_error("send to", "control socket", errno);
  }
  outgoing_.append(bytes, static_cast<std::size_t>(sent));
  return flush();
}

void Channel::queue(const Json& message) { append_frame(outgoing_, message); }

Status Channel::flush() {
  std::size_t done = 0;
  while (done < outgoing_.size()) {
    const ssize_t sent = ::send(socket_.get(), outgoing_.data() + done, outgoing_.size() - done, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) {
      continue;
    }
    if (sent < 0 && errno == EAGAIN) {
      pollfd ready{.fd = socket_.get(), .events = POLLOUT, .revents = 0};
      poll(&ready, 1, -1);
      continue;
    }
    if (sent < 0) {
      outgoing_.clear();
      return io_error("send to", "control socket", errno);
    }
    done += static_cast<std::size_t>(sent);
  }
  outgoing_.clear();
  return {};
}

Result<bool> Channel::read_some(bool wait) {
  if (consumed_ > 0) {
    incoming_.erase(0, consumed_);
    consumed_ = 0;
  }
  constexpr std::size_t kChunk = 64U << 10;
  const std::size_t before = incoming_.size();
  incoming_.resize(before + kChunk);
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int) * kMaxFrameDescriptors)> control{};
  iovec part{.iov_base = incoming_.data() + before, .iov_len = kChunk};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  header.msg_control = control.data();
  header.msg_controllen = control.size();
  ssize_t got = 0;
  do {
    got = recvmsg(socket_.get(), &header, MSG_CMSG_CLOEXEC | (wait ? 0 : MSG_DONTWAIT));
  } while (got < 0 && errno == EINTR && wait);
  const int fault = errno;
  incoming_.resize(before + (got > 0 ? static_cast<std::size_t>(got) : 0));
  if (got < 0) {
    if (fault == EAGAIN || fault == EINTR) {
      return true;
    }
    if (fault == ECONNRESET) {
      return false;
    }
    return io_error("receive from", "control socket", fault);
  }
  for (cmsghdr* item = CMSG_FIRSTHDR(&header); item != nullptr; item = CMSG_NXTHDR(&header, item)) {
    if (item->cmsg_level == SOL_SOCKET && item->cmsg_type == SCM_RIGHTS) {
      const std::size_t count = (item->cmsg_len - CMSG_LEN(0)) / sizeof(int);
      for (std::size_t i = 0; i < count; ++i) {
        int fd = -1;
        std::memcpy(&fd, CMSG_DATA(item) + i * sizeof(int), sizeof(int));
        received_descriptors_.emplace_back(fd);
      }
    }
  }
  if ((header.msg_flags & MSG_CTRUNC) != 0) {
    return violation("a frame carries too many descriptors");
  }
  return got > 0;
}

Result<bool> Channel::read_available() { return read_some(false); }

Result<std::optional<Frame>> Channel::take() {
  PS_ASSIGN(auto parsed, parse_frame(std::string_view(incoming_).substr(consumed_)));
  if (!parsed) {
    return std::optional<Frame>();
  }
  consumed_ += parsed->size_bytes;
  Frame frame{.message = std::move(parsed->message), .descriptors = {}};
  // A frame says how many descriptors it announces, so that none is ever attributed to its neighbour.
  if (frame.message.contains("descriptors")) {
    const auto announced = frame.message.get<std::uint32_t>("descriptors");
    if (!announced.ok()) {
      return announced.error().wrap(Code::protocol_violation,
                                    fmt::format("frame `{}` announces no number of descriptors", frame.type()));
    }
    const std::uint32_t count = *announced;
    if (count > received_descriptors_.size()) {
      return violation(
          fmt::format("frame `{}` announces {} descriptors; {} arrived", frame.type(), count, received_descriptors_.size()));
    }
    for (std::uint32_t i = 0; i < count; ++i) {
      frame.descriptors.push_back(std::move(received_descriptors_[i]));
    }
    received_descriptors_.erase(received_descriptors_.begin(), received_descriptors_.begin() + count);
  }
  return std::optional(std::move(frame));
}

Result<std::optional<Frame>> Channel::receive() {
  while (true) {
    PS_ASSIGN(auto frame, take());
    if (frame) {
      return frame;
    }
    PS_ASSIGN(const bool open, read_some(true));
    if (!open) {
      if (incoming_.size() > consumed_) {
        return violation("the peer closed the control socket inside a frame");
      }
      return std::optional<Frame>();
    }
  }
}

Result<std::pair<UniqueFd, UniqueFd>> make_socket_pair() {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
    return io_error("make", "control socket", errno);
  }
  return std::pair(UniqueFd(ends[0]), UniqueFd(ends[1]));
}

}  // namespace parascale::protocol
