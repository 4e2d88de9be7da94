//! The only writer of stdout and stderr. It uses colours only on a terminal that is not dumb, without `NO_COLOR`. A closed
//! pipe is not an error. It makes text [`visible`] and escapes JSON, so that text of strangers and agents cannot control the terminal.

use std::io::{IsTerminal, Write};

use anstyle::{AnsiColor, Style};
use serde::Serialize;

pub use super::table::Column;
use super::visible::{self, escaped, in_one_line, visible};
use super::{CliError, table};

pub struct Output {
    json: bool,
    colour: bool,
}

pub const BOLD: Style = Style::new().bold();
pub const FAINT: Style = Style::new().dimmed();
pub const GOOD: Style = AnsiColor::Green.on_default();
pub const BAD: Style = AnsiColor::Red.on_default();

impl Output {
    pub fn new(json: bool) -> Output {
        let wanted = std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty());
        Output {
            json,
            colour: wanted && !is_dumb() && std::io::stdout().is_terminal(),
        }
    }

    pub fn is_json(&self) -> bool {
        self.json
    }

    /// Prints a line. Does nothing in JSON mode.
    pub fn line(&self, text: impl AsRef<str>) -> Result<(), CliError> {
        if self.json {
            Ok(())
        } else {
            write_line(&visible(text.as_ref()))
        }
    }

    /// Prints a result that is text in both modes.
    pub fn text(&self, text: &str) -> Result<(), CliError> {
        write_line(&visible(text))
    }

    /// Prints JSON in both modes.
    pub fn json(&self, json: &str) -> Result<(), CliError> {
        write_line(&escaped(json))
    }

    /// Prints a value as one line of JSON. Does nothing in text mode.
    pub fn value(&self, value: &impl Serialize) -> Result<(), CliError> {
        if !self.json {
            return Ok(());
        }
        let json = serde_json::to_string(value).map_err(|e| CliError::Other(e.to_string()))?;
        self.json(&json)
    }

    /// Prints a question or another text without a line end.
    pub fn ask(&self, text: &str) -> Result<(), CliError> {
        self.raw(&visible(text))
    }

    /// Prints a line that the next one overwrites. A dumb terminal cannot do that, and gets none.
    pub fn passing(&self, text: &str) -> Result<(), CliError> {
        if is_dumb() {
            return Ok(());
        }
        self.raw(&format!("\r{}", visible(text)))
    }

    /// Erases what [`passing`](Output::passing) printed.
    pub fn erase_passing(&self) -> Result<(), CliError> {
        if is_dumb() {
            return Ok(());
        }
        self.raw("\r\u{1b}[K")
    }

    /// Prints control sequences of our own, and rendered rows of Markdown. Never pass text of others: it is not made
    /// visible.
    pub fn raw(&self, text: &str) -> Result<(), CliError> {
        if self.json || text.is_empty() {
            return Ok(());
        }
        let mut stdout = std::io::stdout().lock();
        stdout
            .write_all(text.as_bytes())
            .and_then(|()| stdout.flush())
            .map_err(unwritable)
    }

    /// Prints an error that does not end the program.
    pub fn complain(&self, error: &CliError) -> Result<(), CliError> {
        self.line(self.styled(BAD, &in_words(error)))
    }

    pub fn has_colour(&self) -> bool {
        self.colour
    }

    /// The number of columns of the terminal.
    pub fn width(&self) -> usize {
        terminal_size::terminal_size().map_or(80, |(width, _)| usize::from(width.0))
    }

    pub fn styled(&self, style: Style, text: &str) -> String {
        if self.colour {
            visible::styled(style, text)
        } else {
            text.to_owned()
        }
    }

    /// Prints a table. On a terminal it fits the width, and the header is bold.
    pub fn table(&self, columns: &[Column], rows: &[Vec<String>]) -> Result<(), CliError> {
        let rows: Vec<Vec<String>> = rows
            .iter()
            .map(|row| row.iter().map(|cell| in_one_line(cell)).collect())
            .collect();
        let width = std::io::stdout().is_terminal().then(|| self.width());
        let layout = table::lay_out(columns, &rows, width);
        if let Some(header) = layout.header {
            self.line(self.styled(BOLD, &header))?;
        }
        layout.lines.iter().try_for_each(|line| self.line(line))
    }
}

/// Whether the terminal knows no control sequences.
pub(super) fn is_dumb() -> bool {
    std::env::var_os("TERM").is_some_and(|term| term == "dumb")
}

/// The style of a state of a handoff or platform.
pub fn state_style(state: &str) -> Style {
    match state {
        "completed" | "up" => GOOD,
        "failed" | "down" => BAD,
        _ => Style::new(),
    }
}

fn write_line(text: &str) -> Result<(), CliError> {
    let mut stdout = std::io::stdout().lock();
    let written = stdout
        .write_all(text.as_bytes())
        .and_then(|()| stdout.write_all(b"\n"))
        .and_then(|()| stdout.flush());
    written.map_err(unwritable)
}

fn unwritable(error: std::io::Error) -> CliError {
    match error.kind() {
        std::io::ErrorKind::BrokenPipe => CliError::Closed,
        _ => CliError::Other(format!("stdout: {error}")),
    }
}

/// Prints a prompt without a line end.
pub fn prompt(text: &str) {
    let mut stdout = std::io::stdout().lock();
    let _ = stdout
        .write_all(text.as_bytes())
        .and_then(|()| stdout.flush());
}

/// Prints the error that ends the program: on stderr, or as JSON on stdout in JSON mode.
pub fn report(error: &CliError, json: bool) {
    if matches!(error, CliError::Closed | CliError::Reported { .. }) {
        return;
    }
    if json {
        let _ = write_line(&escaped(&in_json(error).to_string()));
        return;
    }
    to_stderr(&in_words(error));
}

fn in_json(error: &CliError) -> serde_json::Value {
    serde_json::json!({"error": {"kind": error.kind(), "message": error.to_string(), "hint": error.hint()}})
}

fn in_words(error: &CliError) -> String {
    let hint = error
        .hint()
        .map(|hint| format!("\nhint: {hint}"))
        .unwrap_or_default();
    format!("error: {error}{hint}")
}

pub fn to_stderr(text: &str) {
    // If stderr is closed, there is no other place to report it.
    let _ = writeln!(std::io::stderr(), "{}", visible(text));
}
