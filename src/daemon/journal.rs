//! The journal as systemd wants it: one datagram a line, with fields that can be asked for.
//!
//! Every field of a line and of the spans around it goes along as `HERMES_<NAME>`, so that `session`, `handoff`,
//! `platform`, `stage` and `chat` are `HERMES_SESSION` and so on. `message_id` is the journal's own `MESSAGE_ID`. The same
//! fields stand behind the words of the message, for whoever only reads.

use std::fmt::{self, Write as _};
use std::io;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;
use tracing_subscriber::registry::LookupSpan;

/// A log is no place for documents, and a datagram has an end.
const LONGEST_VALUE: usize = 8 << 10;
/// A journal that takes nothing more must not keep the daemon: the line is lost instead.
const PATIENCE: Duration = Duration::from_millis(100);

pub(super) struct Journal {
    socket: UnixDatagram,
}

impl Journal {
    /// Fails when nobody listens there.
    pub(super) fn open(path: &Path) -> io::Result<Journal> {
        let socket = UnixDatagram::unbound()?;
        socket.connect(path)?;
        socket.set_write_timeout(Some(PATIENCE))?;
        Ok(Journal { socket })
    }

    /// One line outside of the log proper.
    pub(super) fn tell(&self, priority: Priority, message_id: Option<&str>, message: &str) {
        let mut entry = Entry::new(priority);
        if let Some(id) = message_id {
            entry.put("MESSAGE_ID", id);
        }
        entry.put("MESSAGE", message);
        self.send(&entry);
    }

    fn send(&self, entry: &Entry) {
        // There is nobody to tell that there is nobody to tell.
        let _ = self.socket.send(&entry.0);
    }
}

/// Those of syslog that are used here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Priority {
    /// Something was lost, or a person is needed.
    Error = 3,
    /// It will be tried again.
    Warning = 4,
    /// What an administrator may want to find.
    Notice = 5,
    Info = 6,
    Debug = 7,
}

impl Priority {
    fn of(level: Level, has_id: bool) -> Priority {
        match level {
            Level::ERROR => Priority::Error,
            Level::WARN => Priority::Warning,
            Level::INFO if has_id => Priority::Notice,
            Level::INFO => Priority::Info,
            _ => Priority::Debug,
        }
    }
}

/// The bytes of one datagram.
struct Entry(Vec<u8>);

impl Entry {
    fn new(priority: Priority) -> Entry {
        let mut entry = Entry(Vec::with_capacity(512));
        entry.put("PRIORITY", &(priority as u8).to_string());
        entry.put("SYSLOG_IDENTIFIER", "hermesd");
        entry
    }

    fn put(&mut self, name: &str, value: &str) {
        let mut end = value.len().min(LONGEST_VALUE);
        while !value.is_char_boundary(end) {
            end -= 1;
        }
        let value = &value.as_bytes()[..end];
        self.0.extend_from_slice(name.as_bytes());
        if value.contains(&b'\n') {
            // The only other form that may hold a line end: the length goes before it.
            self.0.push(b'\n');
            self.0.extend_from_slice(&(end as u64).to_le_bytes());
        } else {
            self.0.push(b'=');
        }
        self.0.extend_from_slice(value);
        self.0.push(b'\n');
    }

    fn put_origin(&mut self, metadata: &Metadata<'_>) {
        self.put("TARGET", metadata.target());
        if let Some((file, line)) = metadata.file().zip(metadata.line()) {
            self.put("CODE_FILE", file);
            self.put("CODE_LINE", &line.to_string());
        }
    }
}

/// The fields of a span, or of a line with its spans: of two with one name the inner one counts.
#[derive(Default, Clone)]
struct Fields(Vec<(&'static str, String)>);

impl Fields {
    fn set(&mut self, name: &'static str, value: String) {
        // Where a line of another crate comes from, said once more.
        if name.starts_with("log.") {
            return;
        }
        match self.0.iter_mut().find(|(known, _)| *known == name) {
            Some((_, old)) => *old = value,
            None => self.0.push((name, value)),
        }
    }

    fn take(&mut self, name: &str) -> Option<String> {
        let at = self.0.iter().position(|(known, _)| *known == name)?;
        Some(self.0.remove(at).1)
    }
}

impl Visit for Fields {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.set(field.name(), value.to_owned());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.set(field.name(), format!("{value:?}"));
    }
}

impl<S> Layer<S> for Journal
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let mut fields = Fields::default();
        attributes.record(&mut fields);
        if let Some(span) = context.span(id) {
            span.extensions_mut().insert(fields);
        }
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        if let Some(span) = context.span(id)
            && let Some(fields) = span.extensions_mut().get_mut::<Fields>()
        {
            values.record(fields);
        }
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let mut fields = Fields::default();
        let scope = context.event_scope(event).into_iter();
        for span in scope.flat_map(|scope| scope.from_root()) {
            if let Some(outer) = span.extensions().get::<Fields>() {
                for (name, value) in &outer.0 {
                    fields.set(name, value.clone());
                }
            }
        }
        event.record(&mut fields);
        let (message, id) = (fields.take("message"), fields.take("message_id"));
        let mut message = message.unwrap_or_default();
        let mut entry = Entry::new(Priority::of(*event.metadata().level(), id.is_some()));
        entry.put_origin(event.metadata());
        if let Some(id) = id {
            entry.put("MESSAGE_ID", &id);
        }
        for (name, value) in &fields.0 {
            entry.put(&journal_name(name), value);
            // A String takes all that is written to it.
            let _ = write!(message, " {name}={value}");
        }
        entry.put("MESSAGE", &message);
        self.send(&entry);
    }
}

/// Capitals, digits and underscores are all that a field's name may have.
fn journal_name(field: &str) -> String {
    let letter = |c: char| match c.is_ascii_alphanumeric() {
        true => c.to_ascii_uppercase(),
        false => '_',
    };
    let name: String = field.chars().map(letter).take(57).collect();
    format!("HERMES_{name}")
}

/// Whether what we write to stderr ends up in the journal: systemd says which file that would be.
pub(super) fn holds_stderr() -> bool {
    let Ok(stream) = std::env::var("JOURNAL_STREAM") else {
        return false;
    };
    nix::sys::stat::fstat(io::stderr())
        .is_ok_and(|stat| stream == format!("{}:{}", stat.st_dev, stat.st_ino))
}

/// Where journald listens.
pub(super) fn usual_place() -> PathBuf {
    "/run/systemd/journal/socket".into()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use tracing_subscriber::layer::SubscriberExt;

    use super::*;

    /// What is logged by `work`, as journald would read it.
    fn told(work: impl FnOnce()) -> Vec<BTreeMap<String, String>> {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("socket");
        let journald = UnixDatagram::bind(&path).unwrap();
        journald.set_nonblocking(true).unwrap();
        let layer = Journal::open(&path).unwrap();
        tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), work);
        let mut datagram = vec![0; 1 << 20];
        std::iter::from_fn(|| {
            let size = journald.recv(&mut datagram).ok()?;
            Some(read(&datagram[..size]))
        })
        .collect()
    }

    fn read(mut bytes: &[u8]) -> BTreeMap<String, String> {
        let mut fields = BTreeMap::new();
        while !bytes.is_empty() {
            let end = bytes.iter().position(|b| *b == b'\n').unwrap();
            let line = std::str::from_utf8(&bytes[..end]).unwrap();
            let (name, value);
            if let Some((before, after)) = line.split_once('=') {
                (name, value) = (before.to_owned(), after.to_owned());
                bytes = &bytes[end + 1..];
            } else {
                let length = u64::from_le_bytes(bytes[end + 1..end + 9].try_into().unwrap());
                let from = end + 9;
                let to = from + usize::try_from(length).unwrap();
                let text = std::str::from_utf8(&bytes[from..to]).unwrap();
                (name, value) = (line.to_owned(), text.to_owned());
                assert_eq!(bytes[to], b'\n');
                bytes = &bytes[to + 1..];
            }
            assert_eq!(fields.insert(name.clone(), value), None, "{name} twice");
        }
        fields
    }

    #[test]
    fn the_fields_of_a_line_and_of_its_spans_are_the_journals() {
        let lines = told(|| {
            let handoff = tracing::info_span!(
                "handoff",
                handoff = 7,
                session = "s",
                platform = "local",
                chat = tracing::field::Empty
            );
            let _in = handoff.enter();
            tracing::warn!(stage = "bound", reason = %"a\nb", "it waits");
            handoff.record("chat", "home");
            tracing::info!(
                message_id = crate::message_id::HANDOFF_COMPLETED,
                session = "other",
                "done"
            );
            tracing::info!("plain");
            tracing::debug!("small");
        });
        let field = |line: usize, name: &str| lines[line].get(name).map(String::as_str);
        assert_eq!(field(0, "PRIORITY"), Some("4"));
        assert_eq!(field(0, "HERMES_HANDOFF"), Some("7"));
        assert_eq!(field(0, "HERMES_SESSION"), Some("s"));
        assert_eq!(field(0, "HERMES_PLATFORM"), Some("local"));
        assert_eq!(field(0, "HERMES_STAGE"), Some("bound"));
        assert_eq!(field(0, "HERMES_REASON"), Some("a\nb"));
        assert_eq!(field(0, "HERMES_CHAT"), None);
        assert_eq!(field(0, "SYSLOG_IDENTIFIER"), Some("hermesd"));
        assert!(field(0, "CODE_FILE").is_some_and(|f| f.ends_with("journal.rs")));
        assert_eq!(field(1, "HERMES_CHAT"), Some("home"));
        assert_eq!(field(1, "HERMES_SESSION"), Some("other"));
        assert_eq!(
            field(1, "MESSAGE_ID"),
            Some(crate::message_id::HANDOFF_COMPLETED)
        );
        assert_eq!(
            field(1, "MESSAGE"),
            Some("done handoff=7 session=other platform=local chat=home")
        );
        let priorities: Vec<_> = (0..4).map(|line| field(line, "PRIORITY")).collect();
        assert_eq!(priorities, [Some("4"), Some("5"), Some("6"), Some("7")]);
    }

    #[test]
    fn a_document_is_cut_and_a_journal_that_is_full_keeps_nobody() {
        let lines = told(|| tracing::info!(text = "ä".repeat(1 << 20), "long"));
        assert_eq!(lines[0]["HERMES_TEXT"].len(), LONGEST_VALUE);
        // Nobody reads meanwhile: the socket's line is full after a few hundred.
        let begun = std::time::Instant::now();
        let lines = told(|| (0..20).for_each(|n| tracing::info!(n, "again")));
        assert!(!lines.is_empty() && begun.elapsed() < Duration::from_secs(10));
    }
}
