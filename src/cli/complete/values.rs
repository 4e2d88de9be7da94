//! Values that only the running world knows: sessions, handoffs, threads, people. Quick or not at all.

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

/// Somebody waits with a finger on the key.
const PATIENCE: Duration = Duration::from_millis(1500);
/// The most that is offered of anything.
const MOST: usize = 50;

/// What an argument takes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Wanted {
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

/// `None`: only the person can know.
pub(super) fn wanted(path: &[&str], arg: &Arg) -> Option<Wanted> {
    Some(match (path.first().copied(), arg.get_id().as_str()) {
        (_, "home") => Wanted::Directories,
        (_, "profile") => Wanted::Profiles,
        (_, "config" | "socket" | "output" | "token_file") => Wanted::Files,
        (Some("setup"), "platform") => Wanted::Choices,
        (_, "platform") => Wanted::Platforms,
        (_, "agent") => Wanted::Agents,
        (_, "session") => Wanted::Sessions,
        (_, "resume") => Wanted::SessionsOrLast,
        (Some("handoffs"), "id") | (Some("logs"), "handoff") => Wanted::Handoffs,
        (Some("pair"), "id") => Wanted::People,
        (_, "place") => Wanted::Places,
        (_, "topic") => Wanted::Topics,
        (_, "source") => Wanted::Sources,
        _ if !arg.get_possible_values().is_empty() => Wanted::Choices,
        _ => return None,
    })
}

/// Where values are asked for; without a configuration, nowhere.
pub(in crate::cli) struct Asker {
    config: Option<Config>,
    socket_is_explicit: bool,
}

impl Asker {
    /// `given` are the options on the line that is being typed.
    pub(super) fn new(args: &GlobalArgs, given: &[(String, String)]) -> Asker {
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
        Asker {
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
    pub(super) fn nobody() -> Asker {
        Asker {
            config: None,
            socket_is_explicit: false,
        }
    }

    pub(super) async fn values(&self, path: &[&str], arg: &Arg, word: &str) -> Offer {
        let plain = |words: &[&str]| words.iter().map(|w| Candidate::new(*w, "")).collect();
        Offer::Words(match wanted(path, arg) {
            None => Vec::new(),
            Some(Wanted::Files) => return Offer::Files,
            Some(Wanted::Directories) => return Offer::Directories,
            Some(Wanted::Profiles) => self.profiles(),
            Some(Wanted::Platforms) => plain(platform::NAMES),
            Some(Wanted::Agents) => plain(agents()),
            Some(Wanted::Topics) => plain(&["handoff", "turn", "session", "platform", "local"]),
            Some(Wanted::Sources) => {
                let platforms = platform::NAMES.iter().copied();
                plain(
                    &["cli", "tui", "acp"]
                        .into_iter()
                        .chain(platforms)
                        .collect::<Vec<_>>(),
                )
            }
            Some(Wanted::Choices) => arg
                .get_possible_values()
                .iter()
                .map(|choice| Candidate::new(choice.get_name(), ""))
                .collect(),
            Some(asked @ (Wanted::Sessions | Wanted::SessionsOrLast)) => {
                let mut list = Vec::new();
                if asked == Wanted::SessionsOrLast {
                    list.push(Candidate::new("last", "the one that was spoken in last"));
                }
                let sessions = self.ask(sessions).await;
                list.extend(sessions.iter().filter_map(|s| session(s, word)));
                list
            }
            Some(Wanted::Handoffs) => {
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
            Some(Wanted::People) => self
                .ask(people)
                .await
                .into_iter()
                .map(|p| Candidate::new(p.user, one_line(&p.name.unwrap_or(p.platform))))
                .collect(),
            Some(Wanted::Places) => {
                let threads = self.ask(threads).await.into_iter();
                let threads =
                    threads.map(|t| Candidate::new(format!("local/{}", t.id), one_line(&t.title)));
                std::iter::once(Candidate::new("local", "the home chat"))
                    .chain(threads)
                    .collect()
            }
        })
    }

    /// On a thread of its own, since a database may keep us waiting; nobody waits for that longer than this.
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
        let answer = tokio::time::timeout(PATIENCE, asked).await;
        let mut list = answer
            .ok()
            .and_then(Result::ok)
            .flatten()
            .unwrap_or_default();
        list.truncate(MOST);
        list
    }
}

/// The agents, as the setting that chooses one has them.
fn agents() -> &'static [&'static str] {
    match platform::schema()
        .find("platforms.local.agent")
        .map(|setting| setting.kind)
    {
        Some(Kind::Choice(names)) => names,
        _ => &[],
    }
}

/// Only those that the verb can do something about.
fn fitting_states(path: &[&str]) -> &'static [&'static str] {
    match path.last() {
        Some(&"cancel") => &["pending", "running"],
        Some(&"retry") => &["failed"],
        _ => &["pending", "running", "completed", "failed"],
    }
}

/// By its title, unless its id is being typed or the title cannot be.
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
