#include "parascale/checkpoint/file_writer.h"

#include <algorithm>
#include <cstdint>

#include "parascale/base/hash.h"

namespace parascale::checkpoint {

namespace {

/// Hashes a file chunk by chunk.
class ChunkHasher {
 public:
  ChunkHasher(FileRecord& record, std::uint64_t size_bytes) : record_(record) {
    record_.size_bytes = size_bytes;
    record_.chunk_bytes = kChunkBytes;
    record_.chunks.clear();
  }
  void add_chunk(std::span<const std::byte> chunk) {
    record_.chunks.push_back(xxh3_64(chunk));
    whole_.update(chunk);
  }
  void finish() { record_.xxh3_128 = whole_.digest_128_hex(); }

 private:
  FileRecord& record_;
  Xxh3Stream whole_;
};

}  // namespace

Status FileWriter::write(const std::string& directory, std::span<const std::byte> bytes, FileRecord& record) {
  PS_ASSIGN(auto file, files_.open(join_path(directory, record.path), OpenMode::create_new));
  {
    const Stopwatch watch(clock_, times_.write);
    PS_TRY(file->allocate(bytes.size()));  // the disk being full shows here, before anything is written
  }
  ChunkHasher hasher(record, bytes.size());
  for (std::uint64_t at = 0; at < bytes.size(); at += kChunkBytes) {
    const auto chunk = bytes.subspan(at, std::min<std::uint64_t>(kChunkBytes, bytes.size() - at));
    {
      const Stopwatch watch(clock_, times_.hash);
      hasher.add_chunk(chunk);
    }
    const Stopwatch watch(clock_, times_.write);
    PS_TRY(file->write_at(at, chunk));
  }
  hasher.finish();
  const Stopwatch watch(clock_, times_.sync);
  PS_TRY(file->sync());
  return file->close();
}

void hash_bytes(std::span<const std::byte> bytes, FileRecord& record) {
  ChunkHasher hasher(record, bytes.size());
  for (std::uint64_t at = 0; at < bytes.size(); at += kChunkBytes) {
    hasher.add_chunk(bytes.subspan(at, std::min<std::uint64_t>(kChunkBytes, bytes.size() - at)));
  }
  hasher.finish();
}

}  // namespace parascale::checkpoint
