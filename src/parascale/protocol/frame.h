#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "parascale/base/json.h"
#include "parascale/base/unique_fd.h"

namespace parascale::protocol {

/// Protocol version of agent, engine and workers. A different major ends the handshake.
inline constexpr std::string_view kProtocolVersion = "1.0";
/// Environment variable that holds the number of the child's end of the control socket.
inline constexpr const char* kWorkerFdVariable = "PARASCALE_WORKER_FD";
/// Largest payload of a frame.
inline constexpr std::uint32_t kMaxFrameBytes = 16U << 20;
/// Most descriptors that one frame may carry.
inline constexpr std::size_t kMaxFrameDescriptors = 8;

/// One message: a JSON object with `type`, and the descriptors it announces.
struct Frame {
  Json message;
  std::vector<UniqueFd> descriptors;

  /// The member `type`; never empty in a received frame.
  std::string type() const;
};

/// One end of a control socket (AF_UNIX, SOCK_STREAM) that sends and receives frames.
///
/// Frame: u32 little-endian payload length (at most kMaxFrameBytes), u32 kind (0 = JSON), payload: a UTF-8 JSON object with
/// `type`. Descriptors travel as SCM_RIGHTS with the first byte of the frame that announces them. Errors: protocol_violation for
/// a frame that breaks these rules, io_failed for the socket. *thread-compatible*
class Channel {
 public:
  explicit Channel(UniqueFd socket);

  int fd() const { return socket_.get(); }
  bool valid() const { return socket_.valid(); }
  void close() { socket_.reset(); }

  /// Sends one frame, waiting for room.
  Status send(const Json& message, const std::vector<int>& descriptors = {});
  /// Appends a frame to the send buffer; `flush` sends all of them with one system call.
  void queue(const Json& message);
  /// Sends what is queued, waiting for room.
  Status flush();
  bool has_queued() const { return !outgoing_.empty(); }

  /// Waits for one frame; nothing when the peer closed its end between frames.
  Result<std::optional<Frame>> receive();
  /// Reads what is there without waiting; returns false when the peer closed its end.
  Result<bool> read_available();
  /// Takes a complete frame that has been read, if there is one.
  Result<std::optional<Frame>> take();

 private:
  Result<bool> read_some(bool wait);

  UniqueFd socket_;
  std::string outgoing_;
  std::string incoming_;
  std::size_t consumed_ = 0;
  std::vector<UniqueFd> received_descriptors_;
};

/// Returns a connected pair of close-on-exec sockets.
Result<std::pair<UniqueFd, UniqueFd>> make_socket_pair();

/// Parses one frame from the start of `bytes`: used by Channel and by the fuzz target. Returns the frame's message and its size,
/// or nothing when `bytes` is too short to tell. Errors: protocol_violation.
struct ParsedFrame {
  Json message;
  std::size_t size_bytes = 0;
};
Result<std::optional<ParsedFrame>> parse_frame(std::string_view bytes);

}  // namespace parascale::protocol
