//! Asks questions in the terminal.

use std::io::{BufRead, IsTerminal};

use nix::sys::termios::{LocalFlags, SetArg, tcgetattr, tcsetattr};

use crate::cli::CliError;
use crate::cli::output::Output;

/// Whether standard input is a terminal.
pub(super) fn can_ask() -> bool {
    std::io::stdin().is_terminal()
}

/// Asks for a line. It is empty if the person only presses Enter.
pub(super) async fn line(out: &Output, question: &str) -> Result<String, CliError> {
    out.ask(&format!("{question} "))?;
    read().await
}

/// Asks for a line without echo.
pub(super) async fn secret(out: &Output, question: &str) -> Result<String, CliError> {
    // Before the question, so that fast typing is not shown either.
    let quiet = NoEcho::new();
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

/// Asks a question whose default is no.
pub(in crate::cli) async fn no(out: &Output, question: &str) -> Result<bool, CliError> {
    let answer = line(out, &format!("{question} [y/N]")).await?;
    Ok(matches!(answer.to_lowercase().as_str(), "y" | "yes"))
}

/// Asks for a number from 1 to `count`, and returns it minus one. `None`: the person only presses Enter.
pub(super) async fn number(
    out: &Output,
    question: &str,
    count: usize,
) -> Result<Option<usize>, CliError> {
    loop {
        let answer = line(out, question).await?;
        if answer.is_empty() {
            return Ok(None);
        }
        match answer.parse::<usize>() {
            Ok(number) if (1..=count).contains(&number) => return Ok(Some(number - 1)),
            _ => out.line(format!("Type a number from 1 to {count}."))?,
        }
    }
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
            message: "the input ended before the setup was complete".into(),
            hint: Some("the steps before this one are saved: run it again to continue".into()),
        }),
        Ok((_, line)) => Ok(line.trim().to_owned()),
        Err(error) => Err(CliError::Other(error.to_string())),
    }
}

/// Turns off the echo of the terminal until it is dropped.
struct NoEcho(Option<nix::sys::termios::Termios>);

impl NoEcho {
    fn new() -> NoEcho {
        let Ok(before) = tcgetattr(std::io::stdin()) else {
            return NoEcho(None);
        };
        let mut quiet = before.clone();
        quiet.local_flags.remove(LocalFlags::ECHO);
        let _ = tcsetattr(std::io::stdin(), SetArg::TCSADRAIN, &quiet);
        NoEcho(Some(before))
    }
}

impl Drop for NoEcho {
    fn drop(&mut self) {
        if let Some(before) = &self.0 {
            let _ = tcsetattr(std::io::stdin(), SetArg::TCSADRAIN, before);
        }
    }
}
