#pragma once

#include <cstdint>
#include <string>

#include "parascale/base/clock.h"
#include "parascale/base/file_system.h"
#include "parascale/checkpoint/committer.h"
#include "parascale/checkpoint/file_writer.h"
#include "parascale/checkpoint/manifest.h"
#include "parascale/checkpoint/options.h"

namespace parascale::checkpoint {

/// One attempt to write one checkpoint into a temporary directory. *confined to one thread*
class CommitAttempt {
 public:
  CommitAttempt(FileSystem& files, const Clock& clock, const CheckpointOptions& options, const CommitRequest& request)
      : files_(files), clock_(clock), writer_(files, clock), options_(options), request_(request) {}

  /// Makes the manifest without hashes and checks that the request is complete. Touches no file. Errors: manifest_invalid,
  /// unsafe_path.
  Status prepare(std::uint64_t seq);

  /// Errors: disk_full, io_failed.
  Status check_space();

  /// Whether the request holds the same bytes as a checkpoint with these files. Hashes the request, writes nothing.
  bool same_content(const Manifest& existing) const;

  /// Writes everything into the new directory `temporary`; afterwards all of it is durable except the directory's own name.
  /// Errors: io_failed; then `temporary` must be thrown away.
  Status write(const std::string& temporary);

  /// Complete, with hashes, after `write`.
  const Manifest& manifest() const { return manifest_; }
  /// Of all files, manifest included, after `write`.
  std::uint64_t size_bytes() const { return size_bytes_; }
  WriteTimes& times() { return writer_.times(); }

 private:
  template <typename Use>
  Status for_each_file(Use use) const;
  void hash_pieces();
  Status write_manifest(const std::string& temporary);

  FileSystem& files_;
  const Clock& clock_;
  FileWriter writer_;
  const CheckpointOptions& options_;
  const CommitRequest& request_;
  Manifest manifest_;
  std::uint64_t size_bytes_ = 0;
};

}  // namespace parascale::checkpoint
