//! Starts the log: structured fields if stderr goes to the journal, otherwise readable lines on stderr.

use std::fmt;
use std::io::IsTerminal;
use std::sync::OnceLock;

use anstyle::{Effects, Style};
use tracing::field::{Field, Visit};
use tracing_subscriber::field::RecordFields;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{self as lines, FormatFields};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Registry, registry, reload};

use super::DaemonError;
use crate::config::LogConfig;
use crate::daemon::journald::{self, Journal, Priority};
use crate::journal_ids;

pub fn start(config: &LogConfig) -> Result<(), DaemonError> {
    let filter = filter(config)?;
    let to_journal = match config.target.as_str() {
        "journal" => true,
        "stderr" => false,
        _ => journald::holds_stderr(),
    };
    // If there is no journal, the lines go to stderr.
    let journal = to_journal.then(|| Journal::open().ok()).flatten();
    let failed = |e: tracing_subscriber::util::TryInitError| {
        DaemonError::Config(format!("cannot start the log: {e}"))
    };
    let (filter, handle) = reload::Layer::new(filter);
    let _ = FILTER.set(handle);
    let registry = registry().with(filter);
    match journal {
        Some(journal) => registry.with(journal).try_init().map_err(failed),
        None => {
            let lines = lines::layer()
                .with_writer(std::io::stderr)
                .with_ansi(std::io::stderr().is_terminal())
                .with_target(false)
                .fmt_fields(ForPeople);
            registry.with(lines).try_init().map_err(failed)
        }
    }
}

/// A reload changes the filter through this handle.
static FILTER: OnceLock<reload::Handle<EnvFilter, Registry>> = OnceLock::new();

/// Replaces the filter.
pub(super) fn change(config: &LogConfig) -> Result<(), DaemonError> {
    let filter = filter(config)?;
    match FILTER.get().map(|handle| handle.reload(filter)) {
        None | Some(Ok(())) => Ok(()),
        Some(Err(error)) => Err(DaemonError::Config(format!("log.level: {error}"))),
    }
}

pub(super) fn filter(config: &LogConfig) -> Result<EnvFilter, DaemonError> {
    EnvFilter::try_new(&config.level).map_err(|e| DaemonError::Config(format!("log.level: {e}")))
}

/// Writes the reason of the end to the journal, if stderr goes there. Returns false if the caller has to print it on
/// stderr.
pub fn log_end(error: &DaemonError) -> bool {
    if !journald::holds_stderr() {
        return false;
    }
    let Ok(journal) = Journal::open() else {
        return false;
    };
    let id = matches!(error, DaemonError::Config(_)).then_some(journal_ids::CONFIG_REFUSED);
    journal.write_line(Priority::Error, id, &error.to_string());
    true
}

/// Formats fields as `name=value`, without those that only the journal uses.
struct ForPeople;

impl<'writer> FormatFields<'writer> for ForPeople {
    fn format_fields<R: RecordFields>(&self, writer: Writer<'writer>, fields: R) -> fmt::Result {
        let mut line = Line {
            writer,
            begun: false,
            outcome: Ok(()),
        };
        fields.record(&mut line);
        line.outcome
    }
}

struct Line<'writer> {
    writer: Writer<'writer>,
    begun: bool,
    outcome: fmt::Result,
}

impl Line<'_> {
    fn put(&mut self, name: &str, value: &dyn fmt::Debug) -> fmt::Result {
        if std::mem::replace(&mut self.begun, true) {
            self.writer.write_char(' ')?;
        }
        if name == "message" {
            return write!(self.writer, "{value:?}");
        }
        let style = match self.writer.has_ansi_escapes() {
            true => Style::new().effects(Effects::ITALIC),
            false => Style::new(),
        };
        write!(self.writer, "{style}{name}{style:#}={value:?}")
    }
}

impl Visit for Line<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let name = field.name();
        let for_people = name != "message_id" && !name.starts_with("log.");
        if for_people && self.outcome.is_ok() {
            self.outcome = self.put(name, value);
        }
    }
}

#[cfg(test)]
mod tests {

    use super::*;
    use crate::testing::Page;

    #[test]
    fn people_read_what_they_can_use() {
        let page = Page::default();
        let writer = page.clone();
        let lines = lines::layer()
            .with_writer(move || writer.clone())
            .with_ansi(false)
            .with_target(false)
            .without_time()
            .fmt_fields(ForPeople);
        tracing::subscriber::with_default(registry().with(lines), || {
            let span = tracing::info_span!("handoff", handoff = 7, chat = tracing::field::Empty);
            span.record("chat", "home");
            let _in = span.enter();
            let error = "no luck";
            tracing::info!(message_id = journal_ids::READY, %error, session = "s", "it is so");
        });
        let text = page.text();
        assert_eq!(
            text,
            " INFO handoff{handoff=7 chat=\"home\"}: it is so error=no luck session=\"s\"\n"
        );
    }
}
