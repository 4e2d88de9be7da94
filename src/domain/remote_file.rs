//! A file that is still on a platform's server.

use serde::{Deserialize, Serialize};

use super::FileKind;

/// A file that is not downloaded yet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RemoteFile {
    pub kind: FileKind,
    /// The platform's id for the download.
    pub id: String,
    pub name: Option<String>,
    pub mime: Option<String>,
    pub size: Option<u64>,
}
