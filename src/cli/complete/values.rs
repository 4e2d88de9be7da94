//! Offers values for arguments. Sessions, handoffs, threads and people come from the daemon or the database, within a
//! time limit.

use std::path::PathBuf;
use std::time::Duration;

use clap::Arg;

use super::super::args::GlobalArgs;
use super::super::backend::{self, Backend};
use super::{Candidate, Offer};
use crate::config::settings::Kind;
use crate::config::{self, Config, Overrides, paths};
use crate::platform;
use crate::protocol::{
    Call, HandoffList, HandoffView, LocalThreadView, Nothing, PersonView, SessionList, SessionView,
};

/// The user waits for the shell.
const TIMEOUT: Duration = Duration::from_millis(1500);
/// The maximum number of candidates.
const MOST: usize = 50;

/// The kind of value that an argument takes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum ValueKind {
    Files,
    Directories,
    Profiles,
    Platforms,
    Agents,
    Sessions,
    /// Sessions, and `last`.
    SessionsOrLast,
    Handoffs,
    People,
    Places,
    Topics,
    Sources,
    Choices,
}

/// `None` for a free value, which cannot be completed.
pub(super) fn value_kind(path: &[&str], arg: &Arg) -> Option<ValueKind> {
    Some(match (path.first().copied(), arg.get_id().as_str()) {
        (_, "home") => ValueKind::Directories,
        (_, "profile") => ValueKind::Profiles,
        (_, "config" | "socket" | "output" | "token_file") => ValueKind::Files,
        (Some("setup"), "platform") => ValueKind::Choices,
        (_, "platform") => ValueKind::Platforms,
        (_, "agent") => ValueKind::Agents,
        (_, "session") => ValueKind::Sessions,
        (_, "resume") => ValueKind::SessionsOrLast,
        (Some("handoffs"), "id") | (Some("logs"), "handoff") => ValueKind::Handoffs,
        (Some("pair"), "id") => ValueKind::People,
        (_, "place") => ValueKind::Places,
        (_, "topic") => ValueKind::Topics,
        (_, "source") => ValueKind::Sources,
        _ if !arg.get_possible_values().is_empty() => ValueKind::Choices,
        _ => return None,
    })
}

/// The source of the values. Without a configuration it knows only fixed ones.
pub(in crate::cli) struct ValueSource {
    config: Option<Config>,
    socket_is_explicit: bool,
}

impl ValueSource {
    /// `given` are the options on the line that is being typed.
    pub(super) fn new(args: &GlobalArgs, given: &[(String, String)]) -> ValueSource {
        let on_the_line = |name: &str| {
            let mut given = given.iter().rev();
            given
                .find(|(option, _)| option == name)
                .map(|(_, value)| value.clone())
        };
        let path = |name: &str, own: &Option<PathBuf>| {
            on_the_line(name).map(PathBuf::from).or(own.clone())
        };
        let socket = path("socket", &args.socket);
        let overrides = Overrides {
            config: path("config", &args.config),
            home: path("home", &args.home),
            profile: on_the_line("profile").or(args.profile.clone()),
            values: socket
                .iter()
                .map(|socket| ("control.socket", socket.display().to_string()))
                .collect(),
        };
        ValueSource {
            config: config::load(platform::schema(), &overrides).ok(),
            socket_is_explicit: socket.is_some(),
        }
    }

    fn profiles(&self) -> Vec<Candidate> {
        let root = self.config.as_ref().map(|c| paths::root_of(&c.home));
        let names = root.iter().flat_map(|root| paths::profiles(root));
        names.map(|name| Candidate::new(name, "")).collect()
    }

    #[cfg(test)]
    pub(super) fn without_config() -> ValueSource {
        ValueSource {
            config: None,
            socket_is_explicit: false,
        }
    }

    pub(super) async fn offer(&self, path: &[&str], arg: &Arg, word: &str) -> Offer {
        let plain = |words: &[&str]| words.iter().map(|w| Candidate::new(*w, "")).collect();
        Offer::Words(match value_kind(path, arg) {
            None => Vec::new(),
            Some(ValueKind::Files) => return Offer::Files,
            Some(ValueKind::Directories) => return Offer::Directories,
            Some(ValueKind::Profiles) => self.profiles(),
            Some(ValueKind::Platforms) => plain(platform::NAMES),
            Some(ValueKind::Agents) => plain(agents()),
            Some(ValueKind::Topics) => plain(&["handoff", "turn", "session", "platform", "local"]),
            Some(ValueKind::Sources) => {
                let platforms = platform::NAMES.iter().copied();
                plain(
                    &["cli", "tui", "acp"]
                        .into_iter()
                        .chain(platforms)
                        .collect::<Vec<_>>(),
                )
            }
            Some(ValueKind::Choices) => arg
                .get_possible_values()
                .iter()
                .map(|choice| Candidate::new(choice.get_name(), ""))
                .collect(),
            Some(asked @ (ValueKind::Sessions | ValueKind::SessionsOrLast)) => {
                let mut list = Vec::new();
                if asked == ValueKind::SessionsOrLast {
                    list.push(Candidate::new("last", "the session that was used last"));
                }
                let sessions = self.ask(sessions).await;
                list.extend(sessions.iter().filter_map(|s| session(s, word)));
                list
            }
            Some(ValueKind::Handoffs) => {
                let fits = fitting_states(path);
                let handoffs = self.ask(handoffs).await.into_iter();
                handoffs
                    .filter(|h| fits.contains(&h.state.as_str()))
                    .map(|h| {
                        let about = format!("{} to {}, {}", h.session, h.platform, h.state);
                        Candidate::new(h.id.to_string(), about)
                    })
                    .collect()
            }
            Some(ValueKind::People) => self
                .ask(people)
                .await
                .into_iter()
                .map(|p| Candidate::new(p.user, one_line(&p.name.unwrap_or(p.platform))))
                .collect(),
            Some(ValueKind::Places) => {
                let threads = self.ask(threads).await.into_iter();
                let threads =
                    threads.map(|t| Candidate::new(format!("local/{}", t.id), one_line(&t.title)));
                std::iter::once(Candidate::new("local", "the home chat"))
                    .chain(threads)
                    .collect()
            }
        })
    }

    /// Asks in another thread, because the database may block. Gives up after [`TIMEOUT`].
    async fn ask<T, F>(
        &self,
        question: impl FnOnce(Box<dyn Backend>) -> F + Send + 'static,
    ) -> Vec<T>
    where
        T: Send + 'static,
        F: Future<Output = Option<Vec<T>>>,
    {
        let Some(config) = self.config.clone() else {
            return Vec::new();
        };
        let explicit = self.socket_is_explicit;
        let runtime = tokio::runtime::Handle::current();
        let asked = tokio::task::spawn_blocking(move || {
            runtime.block_on(async {
                let backend = backend::open(&config, explicit).await.ok()?;
                question(backend).await
            })
        });
        let answer = tokio::time::timeout(TIMEOUT, asked).await;
        let mut list = answer
            .ok()
            .and_then(Result::ok)
            .flatten()
            .unwrap_or_default();
        list.truncate(MOST);
        list
    }
}

/// The agents, from the choices of the setting that selects one.
fn agents() -> &'static [&'static str] {
    match platform::schema()
        .find("platforms.local.agent")
        .map(|setting| setting.kind)
    {
        Some(Kind::Choice(names)) => names,
        _ => &[],
    }
}

/// The states of the handoffs that the verb accepts.
fn fitting_states(path: &[&str]) -> &'static [&'static str] {
    match path.last() {
        Some(&"cancel") => &["pending", "running"],
        Some(&"retry") => &["failed"],
        _ => &["pending", "running", "completed", "failed"],
    }
}

/// Offers the title, or the id if the id is being typed or the title cannot be typed.
fn session(session: &SessionView, word: &str) -> Option<Candidate> {
    let title = session.title.as_deref().unwrap_or_default();
    let typable = !title.is_empty() && !title.starts_with('-') && !title.contains(char::is_control);
    if typable && title.starts_with(word) {
        let about = format!("{}, {} messages", session.id, session.message_count);
        return Some(Candidate::new(title, about));
    }
    let about = format!("{}, {} messages", session.source, session.message_count);
    let about = if title.is_empty() {
        about
    } else {
        one_line(title)
    };
    session
        .id
        .starts_with(word)
        .then(|| Candidate::new(&session.id, about))
}

fn one_line(text: &str) -> String {
    text.replace(char::is_control, " ")
}

async fn sessions(backend: Box<dyn Backend>) -> Option<Vec<SessionView>> {
    let wish = SessionList {
        limit: Some(MOST),
        ..SessionList::default()
    };
    backend.sessions(wish).await.ok()
}

async fn handoffs(backend: Box<dyn Backend>) -> Option<Vec<HandoffView>> {
    let wish = HandoffList {
        limit: Some(MOST),
        ..HandoffList::default()
    };
    backend.handoffs(wish).await.ok()
}

async fn threads(backend: Box<dyn Backend>) -> Option<Vec<LocalThreadView>> {
    backend.local_threads().await.ok()
}

async fn people(backend: Box<dyn Backend>) -> Option<Vec<PersonView>> {
    let client = backend.daemon().ok()?;
    client.call(Call::PairList(Nothing {})).await.ok()
}
