//! Answers messages from chats: finds the chat's session, runs one turn at a time, and delivers the reply.
//!
//! `accept` stores a message before anything else happens to it, so a restart resumes unanswered messages.

mod accept;
mod access;
mod answer;
mod chat_queue;
mod commands;
mod ended_chats;
mod files;
pub mod hermes_pairing;
mod home_command;
mod interactions;
mod moved_chats;
mod policy;
mod questions;
mod rights;
mod waiting;

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard};

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::Instrument;

use crate::config::{ChatRules, ChatsConfig, Config, PlatformConfig};
use crate::delivery::{Address, ChatQueue, Outbox};
use crate::domain::Button;
use crate::domain::slash_command::{self, Command, ParsedInput, Place};
use crate::domain::{KeyRules, no_longer_here, session_key};
use crate::events::{Bus, Event};
use crate::metrics::{MessageOutcome, Metrics};
use crate::platform::{Platforms, local};
use crate::reloadable::Reloadable;
use crate::shutdown::Shutdown;
use crate::store::retry_while_busy;
use crate::store::{Delivery, Inbound, LocalMessage, REPLY, Store, StoreError};
use crate::turn::{SessionLock, Turns};
pub use access::AccessPolicy;
pub use rights::{Rank, Right};

#[derive(Clone)]
pub struct Chats {
    inner: Arc<Inner>,
}

struct Inner {
    store: Store,
    platforms: Platforms,
    turns: Arc<Turns>,
    metrics: Arc<Metrics>,
    keys: KeyRules,
    rules: Reloadable<Rules>,
    /// The people whom adapters have found by their user names, by platform. Held while `rules` changes.
    found_people: Mutex<HashMap<&'static str, Vec<(String, String)>>>,
    /// Sends replies and notes.
    outbox: Outbox,
    home: PathBuf,
    bus: Bus,
    tracker: TaskTracker,
    /// The daemon stops and begins no more messages.
    draining: CancellationToken,
    /// The daemon stops and cuts off the work in progress.
    stop: CancellationToken,
    /// The waiting work of each chat. Each chat in this map has a worker.
    chats: Mutex<HashMap<String, Chat>>,
    /// The answers in progress, by chat, so that they can be stopped.
    answering: Mutex<HashMap<String, Answering>>,
    /// Chats that have a note that messages from the daemon's absence are not answered.
    passed_over: Mutex<HashSet<String>>,
    /// Cancelled when `chats` has the work of the last run. Workers wait for it, so that new messages do not overtake
    /// old ones.
    recovered: CancellationToken,
}

/// The settings that a reload may change.
#[derive(Clone)]
struct Rules {
    access: AccessPolicy,
    chats: ChatsConfig,
    /// Which messages are answered, by platform.
    platforms: HashMap<String, ChatRules>,
    /// The configured home chats, by platform.
    homes: HashMap<String, String>,
}

impl Rules {
    fn new(config: &Config) -> Rules {
        let home_of = |p: &PlatformConfig| {
            let home = p.home_channel.as_ref()?;
            Some((p.name.clone(), home.chat_id.clone()))
        };
        Rules {
            access: AccessPolicy::new(config),
            chats: config.chats.clone(),
            platforms: config
                .platforms
                .iter()
                .map(|p| (p.name.clone(), p.rules.clone()))
                .collect(),
            homes: config.platforms.iter().filter_map(home_of).collect(),
        }
    }

    fn of_platform(&self, name: &str) -> ChatRules {
        self.platforms.get(name).cloned().unwrap_or_default()
    }
}

/// The waiting work of a chat. The messages themselves are in the store.
#[derive(Default)]
struct Chat {
    /// Notes, and replies of an earlier run. They are sent before the next message is answered.
    unsent: VecDeque<Delivery>,
    /// Ids of messages. The oldest is answered first. A repeated id counts once.
    unanswered: BTreeSet<i64>,
}

/// An answer that is being written.
struct Answering {
    cancel: CancellationToken,
    /// The person who gets it.
    user_id: Option<String>,
}

/// The session of a message.
enum Target {
    Session(String),
    /// The chat's conversation has moved to this place.
    Left(String),
}

/// The session of a message, locked for its turn.
enum Found {
    Session(String, SessionLock),
    Left(String),
    Stopping,
}

/// The destination of the reply to a message.
fn reply_to<'a>(inbound: &'a Inbound, session_id: &'a str) -> Address<'a> {
    Address {
        key: format!("{REPLY}{}", inbound.id),
        source: &inbound.source,
        session_id,
        handoff_id: None,
    }
}

/// A message of the daemon itself.
struct Notice {
    text: String,
    buttons: Vec<Button>,
}

impl From<String> for Notice {
    fn from(text: String) -> Self {
        Notice {
            text,
            buttons: Vec::new(),
        }
    }
}

enum Work {
    Send(Box<Delivery>),
    Answer(i64),
}

impl Chats {
    pub fn new(
        config: &Config,
        store: Store,
        platforms: Platforms,
        turns: Arc<Turns>,
        outbox: Outbox,
        bus: Bus,
        shutdown: Shutdown,
    ) -> Chats {
        let inner = Inner {
            store,
            platforms,
            metrics: turns.metrics.clone(),
            turns,
            keys: config.keys.clone(),
            rules: Reloadable::new(Rules::new(config)),
            found_people: Mutex::default(),
            outbox,
            home: config.home.clone(),
            bus,
            tracker: TaskTracker::new(),
            draining: shutdown.draining,
            stop: shutdown.cut,
            chats: Mutex::default(),
            answering: Mutex::default(),
            passed_over: Mutex::default(),
            recovered: CancellationToken::new(),
        };
        Chats {
            inner: Arc::new(inner),
        }
    }

    /// Resumes the work that the last run left: unanswered messages and unsent replies. Call this once. New messages
    /// wait until it is done.
    pub fn recover(&self) {
        let inner = self.inner.clone();
        self.inner.tracker.spawn(async move {
            let _recovered = inner.recovered.clone().drop_guard();
            match inner.recover_left().await {
                Ok(()) | Err(StoreError::Cancelled) => {}
                Err(error) => {
                    tracing::error!(%error, "work of the last run not resumed, will retry at next start");
                }
            }
        });
    }

    /// Accepts text that was typed into a local chat. Returns when it is stored.
    pub async fn say_local(
        &self,
        chat_id: &str,
        thread_id: Option<&str>,
        text: &str,
    ) -> Result<LocalMessage, StoreError> {
        let source = local::source(chat_id, thread_id);
        let key = session_key(&source, &self.inner.keys);
        let (said, inbound) = self.inner.store.say_local(&key, &source, text).await?;
        self.inner
            .metrics
            .count_inbound(local::NAME, MessageOutcome::Accepted);
        self.inner.bus.publish(local::message_event(&said));
        self.inner.queue_inbound(inbound, said.at).await;
        Ok(said)
    }

    /// Uses the rules of this configuration from now on.
    pub fn reload(&self, config: &Config) {
        let found = self.inner.found_people();
        let mut rules = Rules::new(config);
        for (platform, people) in found.iter() {
            rules.access.add_people(platform, people);
        }
        self.inner.rules.set(rules);
    }

    /// The number of messages that wait for an answer and of replies that wait to be sent.
    pub fn waiting(&self) -> usize {
        let chats = self.inner.locked();
        let waiting = |chat: &Chat| chat.unanswered.len() + chat.unsent.len();
        chats.values().map(waiting).sum()
    }

    /// Waits for the work in progress, after the stop has begun.
    pub async fn drain(&self) {
        self.inner.tracker.close();
        self.inner.tracker.wait().await;
    }
}

impl ChatQueue for Chats {
    fn post(&self, note: Delivery) {
        self.inner.post(note);
    }
}

impl Inner {
    /// Processes one message until it is answered.
    async fn handle(self: &Arc<Self>, id: i64) -> Result<(), StoreError> {
        let Some(inbound) =
            retry_while_busy(&self.stop, || async { self.store.inbound(id) }).await?
        else {
            return Ok(());
        };
        let span = tracing::error_span!(
            "message",
            inbound = id,
            platform = inbound.source.platform,
            chat = inbound.source.chat_id,
            session = tracing::field::Empty
        );
        self.process(inbound).instrument(span).await
    }

    /// Starts over if another program deletes the session meanwhile.
    async fn process(self: &Arc<Self>, mut inbound: Inbound) -> Result<(), StoreError> {
        let typed = slash_command::read(&inbound.text, Place::Chat);
        if let ParsedInput::Command(command, rest) = typed
            && let Some(why) = self.refusal(&inbound, command, rest).await?
        {
            return self.dismiss(&inbound, why).await;
        }
        match typed {
            ParsedInput::Command(Command::Retry, _) => match self.retry(&inbound).await? {
                None => return Ok(()),
                Some(Some(again)) => inbound = again,
                Some(None) => {
                    let said = "There is nothing to try again.".to_owned();
                    return self.dismiss(&inbound, said).await;
                }
            },
            ParsedInput::Command(command, rest) => {
                let said = self.perform(&inbound, command, rest).await?;
                return self.dismiss(&inbound, said).await;
            }
            ParsedInput::NotHere(why) => return self.dismiss(&inbound, why).await,
            ParsedInput::Words => {}
        }
        let inbound = self.fetch_files(inbound).await?;
        loop {
            let (session_id, lock) = match self.session_under_lock(&inbound).await? {
                Found::Session(id, lock) => {
                    tracing::Span::current().record("session", &id);
                    (id, lock)
                }
                Found::Left(went_to) => {
                    return self
                        .dismiss(&inbound, no_longer_here(&inbound.source.platform, &went_to))
                        .await;
                }
                Found::Stopping => return Ok(()),
            };
            match self.answer(&inbound, &session_id, lock).await {
                Ok(Some(sends)) => {
                    for delivery in &sends {
                        self.outbox.send(delivery).await;
                    }
                    return Ok(());
                }
                Ok(None) => return Ok(()),
                Err(StoreError::Cancelled) => return Ok(()),
                Err(error) => {
                    let session = || self.store.session(&session_id);
                    if retry_while_busy(&self.stop, session).await?.is_some() {
                        return Err(error);
                    }
                    tracing::warn!(%error, "session deleted during its turn, starting over");
                }
            }
        }
    }

    /// Answers a message that is not for the agent.
    async fn dismiss(&self, inbound: &Inbound, said: impl Into<Notice>) -> Result<(), StoreError> {
        let Notice { text, buttons } = said.into();
        let mut sends = self.outbox.text_messages(&reply_to(inbound, ""), &text);
        if let Some(last) = sends.last_mut() {
            last.extra.buttons = buttons;
        }
        let store = || self.store.dismiss_inbound(inbound.id, sends.clone());
        for delivery in &retry_while_busy(&self.stop, store).await? {
            self.outbox.send(delivery).await;
        }
        Ok(())
    }

    /// Locks the session that the chat is on. If the chat moves to another session meanwhile, locks that one.
    async fn session_under_lock(&self, inbound: &Inbound) -> Result<Found, StoreError> {
        let target = || self.session_of(inbound);
        let mut wanted = match retry_while_busy(&self.stop, target).await? {
            Target::Session(id) => id,
            Target::Left(went_to) => return Ok(Found::Left(went_to)),
        };
        loop {
            tracing::debug!(session = wanted, "message waits for its turn");
            let conversation = || async { self.store.root(&wanted) };
            let conversation = retry_while_busy(&self.stop, conversation).await?;
            let lock = tokio::select! {
                lock = self.turns.locks.acquire(&conversation) => lock,
                () = self.draining.cancelled() => return Ok(Found::Stopping),
            };
            // Both may be ready at once.
            if self.draining.is_cancelled() {
                return Ok(Found::Stopping);
            }
            match retry_while_busy(&self.stop, target).await? {
                Target::Session(now) if now == wanted => return Ok(Found::Session(wanted, lock)),
                Target::Session(now) => wanted = now,
                Target::Left(went_to) => return Ok(Found::Left(went_to)),
            }
        }
    }

    /// The session of a message: the one that already has its words, else the chat's session, else a new one. A chat
    /// whose conversation has moved away gets no new session.
    async fn session_of(&self, inbound: &Inbound) -> Result<Target, StoreError> {
        if let Some(begun) = self.store.session_of_inbound(inbound.id).await? {
            return Ok(Target::Session(begun));
        }
        let key = &inbound.session_key;
        if let Some(live) = self.store.live_session(key).await? {
            return Ok(Target::Session(live));
        }
        if let Some(left) = self.store.left(key).await? {
            // The chat may have ended between the looks above.
            return Ok(match self.store.session_of_inbound(inbound.id).await? {
                Some(at_end) => Target::Session(at_end),
                None => Target::Left(left.went_to),
            });
        }
        let bound = self.store.bind_fresh_session(key, &inbound.source).await?;
        if bound.fresh {
            self.publish_start(&bound.session_id, &inbound.source.platform);
        }
        Ok(Target::Session(bound.session_id))
    }

    fn publish_start(&self, session_id: &str, platform: &str) {
        self.bus.publish(Event::SessionStarted {
            session_id: session_id.to_owned(),
            platform: platform.to_owned(),
            model: None,
            resumed: false,
        });
    }

    fn answering(&self) -> MutexGuard<'_, HashMap<String, Answering>> {
        self.answering
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn found_people(&self) -> MutexGuard<'_, HashMap<&'static str, Vec<(String, String)>>> {
        self.found_people
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Lets the people in whom the settings of a platform name.
    fn people_found(&self, platform: &'static str, people: Vec<(String, String)>) {
        let mut found = self.found_people();
        let mut rules = (*self.rules.get()).clone();
        rules.access.add_people(platform, &people);
        self.rules.set(rules);
        found.insert(platform, people);
    }

    fn passed_over(&self) -> MutexGuard<'_, HashSet<String>> {
        self.passed_over
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}
