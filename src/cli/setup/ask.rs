//! Questions to the person at the terminal.

use std::io::{BufRead, IsTerminal};

use nix::sys::termios::{LocalFlags, SetArg, tcgetattr, tcsetattr};

use crate::cli::CliError;
use crate::cli::output::Output;

/// Whether there is anybody to ask.
pub(super) fn can_ask() -> bool {
    std::io::stdin().is_terminal()
}

/// A line; empty when they only press Enter.
pub(super) async fn line(out: &Output, question: &str) -> Result<String, CliError> {
    out.ask(&format!("{question} "))?;
    read().await
}

/// The same without showing what is typed.
pub(super) async fn secret(out: &Output, question: &str) -> Result<String, CliError> {
    // Before the question: who answers fast must not see it either.
    let quiet = Quiet::new();
    out.ask(&format!("{question} "))?;
    let line = read().await;
    drop(quiet);
    out.line("")?;
    line
}

pub(super) async fn yes(out: &Output, question: &str) -> Result<bool, CliError> {
    let answer = line(out, &format!("{question} [Y/n]")).await?;
    Ok(matches!(answer.to_lowercase().as_str(), "" | "y" | "yes"))
}

/// Yes only by an explicit word.
pub(super) async fn no(out: &Output, question: &str) -> Result<bool, CliError> {
    let answer = line(out, &format!("{question} [y/N]")).await?;
    Ok(matches!(answer.to_lowercase().as_str(), "y" | "yes"))
}

async fn read() -> Result<String, CliError> {
    let read = tokio::task::spawn_blocking(move || {
        let mut line = String::new();
        let length = std::io::stdin().lock().read_line(&mut line)?;
        Ok((length, line))
    });
    let read: std::io::Result<(usize, String)> = match read.await {
        Ok(read) => read,
        Err(error) => return Err(CliError::Other(error.to_string())),
    };
    match read {
        Ok((0, _)) => Err(CliError::Failed {
            message: "the input has ended".into(),
            hint: Some("nothing more was changed".into()),
        }),
        Ok((_, line)) => Ok(line.trim().to_owned()),
        Err(error) => Err(CliError::Other(error.to_string())),
    }
}

/// A terminal that does not show what is typed, until this is dropped.
struct Quiet(Option<nix::sys::termios::Termios>);

impl Quiet {
    fn new() -> Quiet {
        let Ok(before) = tcgetattr(std::io::stdin()) else {
            return Quiet(None);
        };
        let mut quiet = before.clone();
        quiet.local_flags.remove(LocalFlags::ECHO);
        let _ = tcsetattr(std::io::stdin(), SetArg::TCSADRAIN, &quiet);
        Quiet(Some(before))
    }
}

impl Drop for Quiet {
    fn drop(&mut self) {
        if let Some(before) = &self.0 {
            let _ = tcsetattr(std::io::stdin(), SetArg::TCSADRAIN, before);
        }
    }
}
