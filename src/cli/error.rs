//! The errors of a command: a message, a hint and an exit code.

use clap::error::ErrorKind;

use super::output::Output;
use crate::client::ClientError;
use crate::config::{ConfigError, paths};
use crate::protocol::{RpcError, code};
use crate::sessions::RequestError;
use crate::store::StoreError;

#[derive(Debug, thiserror::Error)]
pub enum CliError {
    #[error("{message}")]
    Refused {
        message: String,
        hint: Option<String>,
        kind: String,
    },
    #[error("{message}")]
    Failed {
        message: String,
        hint: Option<String>,
    },
    #[error("{message}")]
    TimedOut {
        message: String,
        hint: Option<String>,
    },
    #[error("{message}")]
    NoDaemon { message: String },
    /// The command line is wrong.
    #[error("{message}")]
    Usage {
        message: String,
        hint: Option<String>,
    },
    #[error("{0}")]
    Other(String),
    /// The printed JSON has the error. Only the exit code remains.
    #[error("reported already")]
    Reported { code: u8 },
    /// The reader of our output closed the pipe. This is no failure.
    #[error("the output was closed")]
    Closed,
}

impl CliError {
    pub fn exit_code(&self) -> u8 {
        match self {
            CliError::Closed => 0,
            CliError::Reported { code } => *code,
            CliError::Other(_) => 1,
            CliError::Usage { .. } => 2,
            CliError::Refused { .. } => 3,
            CliError::Failed { .. } => 4,
            CliError::TimedOut { .. } => 5,
            CliError::NoDaemon { .. } => 6,
        }
    }

    pub fn kind(&self) -> &str {
        match self {
            CliError::Closed | CliError::Reported { .. } => "told",
            CliError::Other(_) => "error",
            CliError::Usage { .. } => "usage",
            CliError::Refused { kind, .. } => kind,
            CliError::Failed { .. } => "failed",
            CliError::TimedOut { .. } => "timed_out",
            CliError::NoDaemon { .. } => "no_daemon",
        }
    }

    pub fn hint(&self) -> Option<&str> {
        match self {
            CliError::Usage { hint, .. }
            | CliError::Refused { hint, .. }
            | CliError::Failed { hint, .. }
            | CliError::TimedOut { hint, .. } => hint.as_deref(),
            CliError::NoDaemon { .. } => Some(
                "start it: `systemctl --user enable --now hermesd` (system service: `systemctl enable --now hermesd`), or run `hermesd` in another terminal",
            ),
            CliError::Other(_) | CliError::Closed | CliError::Reported { .. } => None,
        }
    }
}

impl CliError {
    /// Call it if the command has printed a value that contains the error. In JSON mode the error is not printed again.
    pub fn after_value(self, out: &Output) -> CliError {
        if out.is_json() {
            CliError::Reported {
                code: self.exit_code(),
            }
        } else {
            self
        }
    }
}

impl From<RpcError> for CliError {
    fn from(error: RpcError) -> Self {
        let (kind, hint) = error
            .data
            .map_or_else(|| ("error".to_owned(), None), |data| (data.kind, data.hint));
        match error.code {
            code::INTERNAL => CliError::Other(error.message),
            _ => CliError::Refused {
                message: error.message,
                hint,
                kind,
            },
        }
    }
}

impl From<ClientError> for CliError {
    fn from(error: ClientError) -> Self {
        match error {
            ClientError::Refused(error) => error.into(),
            ClientError::NoDaemon { .. } | ClientError::Lost => CliError::NoDaemon {
                message: error.to_string(),
            },
            ClientError::Garbled(_) => CliError::Other(error.to_string()),
        }
    }
}

impl From<ConfigError> for CliError {
    fn from(error: ConfigError) -> Self {
        CliError::Refused {
            message: error.to_string(),
            hint: Some("see `hermesd --check-config`".into()),
            kind: "config".into(),
        }
    }
}

impl From<StoreError> for CliError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Missing { path } => {
                let home = path.parent().unwrap_or(&path);
                let is_empty = std::fs::read_dir(home).map_or(true, |mut all| all.next().is_none());
                let state = match is_empty {
                    true => "is empty",
                    false => "has no sessions yet",
                };
                CliError::NoDaemon {
                    message: format!("hermesd is not running, and {} {state}", paths::shown(home)),
                }
            }
            e if e.is_transient() => CliError::Other(e.to_string()),
            e => CliError::Refused {
                message: e.to_string(),
                hint: None,
                kind: "database".into(),
            },
        }
    }
}

impl From<RequestError> for CliError {
    fn from(error: RequestError) -> Self {
        match error {
            RequestError::Store(e) => e.into(),
            RequestError::Refused(r) => CliError::Refused {
                message: r.message,
                hint: r.hint,
                kind: r.kind.as_str().to_owned(),
            },
        }
    }
}

impl From<&clap::Error> for CliError {
    /// The first paragraph says what is wrong. The tips are the hint, but not the usage.
    fn from(error: &clap::Error) -> Self {
        let text = error.render().to_string();
        let mut paragraphs = text.split("\n\n").map(in_one_line);
        let what = paragraphs.next().unwrap_or_default();
        let message = match (error.kind(), what.strip_prefix("error: ")) {
            // Its text is the list of all commands, or the help.
            (ErrorKind::MissingSubcommand, _) | (_, None) => "a command is missing".to_owned(),
            (_, Some(message)) => message.to_owned(),
        };
        let tips = paragraphs.filter_map(|p| p.strip_prefix("tip: ").map(str::to_owned));
        let tips: Vec<String> = tips.collect();
        let hint = match tips.is_empty() {
            true => "see `hermesctl --help`".to_owned(),
            false => tips.join("; "),
        };
        CliError::Usage {
            message,
            hint: Some(hint),
        }
    }
}

fn in_one_line(paragraph: &str) -> String {
    let words: Vec<&str> = paragraph.split_whitespace().collect();
    words.join(" ")
}
