//! Runs `hermesd diagnose` as a child process, which diagnoses platforms and agents if no daemon answers. hermesctl
//! itself has neither adapters nor agents.

use std::path::PathBuf;
use std::process::Stdio;

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use super::CliError;
use crate::config::Overrides;
use crate::protocol::{self, DiagnoseAnswer, DiagnoseRequest};

const PROGRAM: &str = "hermesd";

/// The child ends when this is dropped.
pub(super) struct DiagnoseProcess {
    _child: Child,
    input: ChildStdin,
    answers: Lines<BufReader<ChildStdout>>,
}

impl DiagnoseProcess {
    /// Starts hermesd for the same home and configuration. Settings go to its standard input, because other users can
    /// read arguments.
    pub(super) fn start(overrides: &Overrides) -> Result<DiagnoseProcess, CliError> {
        let program = program();
        let mut command = Command::new(&program);
        for (flag, value) in [("--config", &overrides.config), ("--home", &overrides.home)] {
            if let Some(value) = value {
                command.arg(flag).arg(value);
            }
        }
        if let Some(profile) = &overrides.profile {
            command.arg("--profile").arg(profile);
        }
        command
            .arg("diagnose")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            // Ctrl-C goes to hermesctl, which ends the child.
            .process_group(0)
            .kill_on_drop(true);
        let mut child = command.spawn().map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => CliError::Refused {
                message: "this needs hermesd, which is neither next to hermesctl nor on PATH"
                    .into(),
                hint: Some("install the package with both programs, or add the directory of hermesd to PATH".into()),
                kind: "no_hermesd".into(),
            },
            _ => CliError::Other(format!("cannot start {}: {error}", program.display())),
        })?;
        let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(CliError::Other("hermesd has no input or output".into()));
        };
        Ok(DiagnoseProcess {
            _child: child,
            input,
            answers: BufReader::new(output).lines(),
        })
    }

    /// Sends a request and returns the first answer.
    pub(super) async fn ask(
        &mut self,
        request: &DiagnoseRequest,
    ) -> Result<DiagnoseAnswer, CliError> {
        self.send(request).await?;
        self.answer().await
    }

    pub(super) async fn send(&mut self, request: &DiagnoseRequest) -> Result<(), CliError> {
        let line = protocol::line(request);
        // The write fails only if the child has ended.
        match self.input.write_all(&line).await {
            Ok(()) => Ok(()),
            Err(_) => Err(ended_early()),
        }
    }

    /// The next answer. `failed` becomes an error.
    pub(super) async fn answer(&mut self) -> Result<DiagnoseAnswer, CliError> {
        let line = self.answers.next_line().await;
        let line = line.map_err(|error| CliError::Other(format!("hermesd: {error}")))?;
        let answer = serde_json::from_str(&line.ok_or_else(ended_early)?);
        match answer.map_err(|_| unexpected())? {
            DiagnoseAnswer::Failed { message, kind } => Err(match kind {
                Some(kind) => CliError::Refused {
                    message,
                    hint: None,
                    kind,
                },
                None => CliError::Failed {
                    message,
                    hint: None,
                },
            }),
            answer => Ok(answer),
        }
    }
}

/// The error for an answer that does not fit its request.
pub(super) fn unexpected() -> CliError {
    CliError::Failed {
        message: "hermesd gave an answer that this hermesctl does not understand".into(),
        hint: Some(SAME_VERSION.into()),
    }
}

fn ended_early() -> CliError {
    CliError::Failed {
        message: "hermesd ended before it answered".into(),
        hint: Some(SAME_VERSION.into()),
    }
}

const SAME_VERSION: &str = "hermesd and hermesctl must have the same version: compare `hermesd --version` and `hermesctl --version`";

/// The hermesd next to this program, or the one on PATH.
fn program() -> PathBuf {
    let own = std::env::current_exe().ok();
    let sibling = own.and_then(|own| Some(own.parent()?.join(PROGRAM)));
    sibling
        .filter(|path| path.is_file())
        .unwrap_or_else(|| PROGRAM.into())
}
