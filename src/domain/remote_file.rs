//! Files that a platform still holds.

use serde::{Deserialize, Serialize};

use super::FileKind;

/// A file that is still with the platform.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RemoteFile {
    pub kind: FileKind,
    /// By which the platform gives it out.
    pub id: String,
    pub name: Option<String>,
    pub mime: Option<String>,
    pub size: Option<u64>,
}
