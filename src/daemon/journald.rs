//! Writes the log to the journal, with fields that you can filter by.
//!
//! The fields of a line and of the spans around it that [`KEPT`] names become fields of the journal: `session` becomes
//! `HERMES_SESSION`, `message_id` becomes `MESSAGE_ID`. All fields also follow the text of the message.
//! tracing-journald writes the lines. It would name the fields after the code, so it gets events of one fixed shape.

use std::fmt::{self, Write as _};
use std::io;

use tracing::callsite::Identifier;
use tracing::field::{Field, FieldSet, Visit, display};
use tracing::metadata::Kind;
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::Interest;
use tracing::{Callsite, Dispatch, Event, Level, Metadata, Subscriber, Value};
use tracing_subscriber::layer::{Context, SubscriberExt};
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::{Layer, registry};

/// The most bytes of a value. The rest is cut.
const LONGEST_VALUE: usize = 8 << 10;

/// The fields that become fields of the journal. The message catalog refers to some of them.
const KEPT: [&str; 9] = [
    "message_id",
    "session",
    "handoff",
    "platform",
    "stage",
    "chat",
    "agent",
    "home",
    "socket",
];

/// The fields of the events for tracing-journald: the message, then those of [`KEPT`] in their order.
const SHAPE: [&str; 10] = [
    "message",
    "MESSAGE_ID",
    "HERMES_SESSION",
    "HERMES_HANDOFF",
    "HERMES_PLATFORM",
    "HERMES_STAGE",
    "HERMES_CHAT",
    "HERMES_AGENT",
    "HERMES_HOME",
    "HERMES_SOCKET",
];

struct Shape(&'static Metadata<'static>);

impl Callsite for Shape {
    fn set_interest(&self, _interest: Interest) {}

    fn metadata(&self) -> &Metadata<'_> {
        self.0
    }
}

/// One shape per priority. The level is the one that tracing-journald maps to that priority.
macro_rules! shape {
    ($site:ident, $metadata:ident, $level:expr) => {
        static $site: Shape = Shape(&$metadata);
        static $metadata: Metadata<'static> = Metadata::new(
            "line",
            "hermesd",
            $level,
            None,
            None,
            None,
            FieldSet::new(&SHAPE, Identifier(&$site)),
            Kind::EVENT,
        );
    };
}

shape!(ERROR, ERROR_LINE, Level::ERROR);
shape!(WARNING, WARNING_LINE, Level::WARN);
shape!(NOTICE, NOTICE_LINE, Level::INFO);
shape!(INFO, INFO_LINE, Level::DEBUG);
shape!(DEBUG, DEBUG_LINE, Level::TRACE);

pub(super) struct Journal {
    /// tracing-journald, in its own registry without spans.
    writer: Dispatch,
}

impl Journal {
    /// Fails if there is no journal.
    pub(super) fn open() -> io::Result<Journal> {
        let journald = tracing_journald::layer()?
            .with_field_prefix(None)
            .with_syslog_identifier("hermesd".into());
        Ok(Journal::over(Dispatch::new(registry().with(journald))))
    }

    fn over(writer: Dispatch) -> Journal {
        Journal { writer }
    }

    /// Writes one line directly, without the log and its filter.
    pub(super) fn write_line(
        &self,
        priority: Priority,
        message_id: Option<&'static str>,
        message: &str,
    ) {
        let mut fields = Fields::default();
        if let Some(id) = message_id {
            fields.set("message_id", id.to_owned());
        }
        self.write(priority, message, &fields);
    }

    fn write(&self, priority: Priority, message: &str, fields: &Fields) {
        let metadata = priority.shape();
        let names: Vec<Field> = metadata.fields().iter().collect();
        let values: [_; SHAPE.len()] = std::array::from_fn(|n| match n {
            0 => Some(display(cut(message))),
            n => fields.get(KEPT[n - 1]).map(|value| display(cut(value))),
        });
        let line: [_; SHAPE.len()] = std::array::from_fn(|n| {
            let value = values[n].as_ref().map(|value| value as &dyn Value);
            (&names[n], value)
        });
        let line = metadata.fields().value_set(&line);
        self.writer.event(&Event::new(metadata, &line));
    }
}

fn cut(text: &str) -> &str {
    &text[..text.floor_char_boundary(LONGEST_VALUE)]
}

/// The priorities of syslog that hermesd uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Priority {
    /// Something was lost, or you have to act.
    Error,
    /// hermesd retries.
    Warning,
    /// A line with a message id.
    Notice,
    Info,
    Debug,
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

    fn shape(self) -> &'static Metadata<'static> {
        match self {
            Priority::Error => &ERROR_LINE,
            Priority::Warning => &WARNING_LINE,
            Priority::Notice => &NOTICE_LINE,
            Priority::Info => &INFO_LINE,
            Priority::Debug => &DEBUG_LINE,
        }
    }
}

/// The fields of a span, or of a line with its spans. An inner field replaces an outer one with the same name.
#[derive(Default, Clone)]
struct Fields(Vec<(&'static str, String)>);

impl Fields {
    fn set(&mut self, name: &'static str, value: String) {
        // These repeat where a line of another crate comes from.
        if name.starts_with("log.") {
            return;
        }
        match self.0.iter_mut().find(|(known, _)| *known == name) {
            Some((_, old)) => *old = value,
            None => self.0.push((name, value)),
        }
    }

    fn get(&self, name: &str) -> Option<&str> {
        let found = self.0.iter().find(|(known, _)| *known == name);
        found.map(|(_, value)| value.as_str())
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
        let mut message = fields.take("message").unwrap_or_default();
        for (name, value) in fields.0.iter().filter(|(name, _)| *name != "message_id") {
            // Writing to a String cannot fail.
            let _ = write!(message, " {name}={value}");
        }
        let has_id = fields.get("message_id").is_some();
        let priority = Priority::of(*event.metadata().level(), has_id);
        self.write(priority, &message, &fields);
    }
}

/// Whether stderr goes to the journal. systemd names the file of the journal in the environment.
pub(super) fn holds_stderr() -> bool {
    let Ok(stream) = std::env::var("JOURNAL_STREAM") else {
        return false;
    };
    nix::sys::stat::fstat(io::stderr())
        .is_ok_and(|stat| stream == format!("{}:{}", stat.st_dev, stat.st_ino))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::{Arc, Mutex};

    use super::*;

    type Line = (Level, BTreeMap<String, String>);

    /// Replaces tracing-journald and collects its events.
    #[derive(Clone, Default)]
    struct Kept(Arc<Mutex<Vec<Line>>>);

    impl<S: Subscriber> Layer<S> for Kept {
        fn on_event(&self, event: &Event<'_>, _context: Context<'_, S>) {
            struct All(BTreeMap<String, String>);
            impl Visit for All {
                fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
                    self.0.insert(field.name().to_owned(), format!("{value:?}"));
                }
            }
            let mut all = All(BTreeMap::new());
            event.record(&mut all);
            let line = (*event.metadata().level(), all.0);
            self.0.lock().unwrap().push(line);
        }
    }

    fn logged(work: impl FnOnce()) -> Vec<Line> {
        let kept = Kept::default();
        let journal = Journal::over(Dispatch::new(registry().with(kept.clone())));
        tracing::subscriber::with_default(registry().with(journal), work);
        kept.0.lock().unwrap().clone()
    }

    #[test]
    fn the_fields_of_a_line_and_of_its_spans_are_the_journals() {
        let lines = logged(|| {
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
                message_id = crate::journal_ids::HANDOFF_COMPLETED,
                session = "other",
                "done"
            );
            tracing::info!("plain");
            tracing::debug!("small");
        });
        let field = |line: usize, name: &str| lines[line].1.get(name).map(String::as_str);
        assert_eq!(field(0, "HERMES_HANDOFF"), Some("7"));
        assert_eq!(field(0, "HERMES_SESSION"), Some("s"));
        assert_eq!(field(0, "HERMES_PLATFORM"), Some("local"));
        assert_eq!(field(0, "HERMES_STAGE"), Some("bound"));
        assert_eq!(field(0, "HERMES_CHAT"), None);
        assert!(field(0, "message").is_some_and(|m| m.contains("reason=a\nb")));
        assert_eq!(field(1, "HERMES_CHAT"), Some("home"));
        assert_eq!(field(1, "HERMES_SESSION"), Some("other"));
        assert_eq!(
            field(1, "MESSAGE_ID"),
            Some(crate::journal_ids::HANDOFF_COMPLETED)
        );
        assert_eq!(
            field(1, "message"),
            Some("done handoff=7 session=other platform=local chat=home")
        );
        // tracing-journald maps these levels to warning, notice, info and debug.
        let levels: Vec<Level> = lines.iter().map(|(level, _)| *level).collect();
        assert_eq!(
            levels,
            [Level::WARN, Level::INFO, Level::DEBUG, Level::TRACE]
        );
    }

    #[test]
    fn what_the_catalog_names_is_there() {
        let catalog = include_str!("../../packaging/catalog/hermesd.catalog");
        let names = catalog.split('@').skip(1).step_by(2);
        let missing: Vec<&str> = names.filter(|name| !SHAPE.contains(name)).collect();
        assert_eq!(missing, [""; 0]);
    }

    #[test]
    fn a_document_is_cut() {
        let lines = logged(|| tracing::info!(session = "ä".repeat(1 << 20), "long"));
        assert_eq!(lines[0].1["HERMES_SESSION"].len(), LONGEST_VALUE);
        assert!(lines[0].1["message"].len() <= LONGEST_VALUE);
    }
}
