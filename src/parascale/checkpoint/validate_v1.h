#pragma once

#include <string>
#include <string_view>

#include "parascale/base/file_system.h"
#include "parascale/base/json.h"
#include "parascale/base/result.h"
#include "parascale/checkpoint/validate.h"

namespace parascale::checkpoint {

inline constexpr std::string_view kManifestV1Format = "parascale_manifest_v1";

/// Validates a checkpoint of the Python product: `files[]` with path, entry_type (file, directory), size_bytes, sha256 and error;
/// directories carry no hash. Fills in `out`. Errors: manifest_invalid when the document does not have that form.
Status validate_v1(FileSystem& files, const std::string& directory, const Json& document, Validation& out);

}  // namespace parascale::checkpoint
