//! The road from a chat to the agent and back: the session of that chat, one message at a time, answered and delivered.
//!
//! A message is kept in the store before anything else happens to it, so a restart takes up what was not answered.

mod accept;
mod access;
mod answer;
mod chat_queue;
mod commands;
mod files;
pub mod hermes_pairing;
mod home_command;
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
use crate::store::{Delivery, Inbound, LocalMessage, Store, StoreError};
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
    /// Sends replies and notes.
    outbox: Outbox,
    home: PathBuf,
    bus: Bus,
    tracker: TaskTracker,
    /// The daemon stops: no message is begun any more.
    draining: CancellationToken,
    /// The daemon stops: what was begun ends now.
    stop: CancellationToken,
    /// What waits, by chat; a chat that is here has a worker.
    chats: Mutex<HashMap<String, Chat>>,
    /// The answers that are coming, by chat, for whoever wants to stop one.
    answering: Mutex<HashMap<String, Answering>>,
    /// Chats that were told that what was said while nobody was there is not answered.
    passed_over: Mutex<HashSet<String>>,
    /// Given when what the last run left is in `chats`. Nothing is answered before: it would overtake that.
    recovered: CancellationToken,
}

/// What a reload may change.
struct Rules {
    access: AccessPolicy,
    chats: ChatsConfig,
    /// Which messages are answered, by platform.
    platforms: HashMap<String, ChatRules>,
    /// The chats that platforms were configured to hand off to.
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

/// The messages themselves are in the store.
#[derive(Default)]
struct Chat {
    /// Replies of an earlier run, which come before whatever is said next.
    unsent: VecDeque<Delivery>,
    /// Ids: the oldest is answered first, and one that is handed over twice counts once.
    unanswered: BTreeSet<i64>,
}

/// An answer that is being written.
struct Answering {
    cancel: CancellationToken,
    /// The person it is for.
    user_id: Option<String>,
}

/// Where a message belongs.
enum Belongs {
    To(String),
    /// The chat's conversation went elsewhere.
    Left(String),
}

/// A message's session, and the right to run its turn.
enum Found {
    Session(String, SessionLock),
    Left(String),
    Stopping,
}

/// Where the reply to a message goes.
fn reply_to<'a>(inbound: &'a Inbound, session_id: &'a str) -> Address<'a> {
    Address {
        key: format!("inbound:{}", inbound.id),
        source: &inbound.source,
        session_id,
        handoff_id: None,
    }
}

/// What the house itself says.
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

    /// Takes up what the last run of the daemon left: unanswered messages, and replies that were not sent. To be called
    /// once; messages that come meanwhile wait for it.
    pub fn recover(&self) {
        let inner = self.inner.clone();
        self.inner.tracker.spawn(async move {
            let _recovered = inner.recovered.clone().drop_guard();
            match inner.recover_left().await {
                Ok(()) | Err(StoreError::Cancelled) => {}
                Err(error) => {
                    tracing::error!(%error, "what the last run left in the chats could not be taken up");
                }
            }
        });
    }

    /// Words typed into a local chat. Returns when they are kept.
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
            .met(local::NAME, MessageOutcome::Accepted);
        self.inner.bus.publish(local::told(&said));
        self.inner.queue_inbound(inbound, said.at).await;
        Ok(said)
    }

    /// From now on these rules hold.
    pub fn reload(&self, config: &Config) {
        self.inner.rules.set(Rules::new(config));
    }

    /// Messages that wait to be answered, and replies that wait to be sent.
    pub fn waiting(&self) -> usize {
        let chats = self.inner.locked();
        let waiting = |chat: &Chat| chat.unanswered.len() + chat.unsent.len();
        chats.values().map(waiting).sum()
    }

    /// Waits for the work in progress; the stop has begun.
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
    /// One message from its chat to its answer.
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
        self.see_to(inbound).instrument(span).await
    }

    /// Begins again when the session is deleted under it.
    async fn see_to(self: &Arc<Self>, mut inbound: Inbound) -> Result<(), StoreError> {
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
                    tracing::warn!(%error, "a session was deleted while it was spoken to");
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
        let keep = || self.store.dismiss_inbound(inbound.id, sends.clone());
        for delivery in &retry_while_busy(&self.stop, keep).await? {
            self.outbox.send(delivery).await;
        }
        Ok(())
    }

    /// The session that the chat is on, and the right to run its turn. While that was waited for, the chat may have
    /// moved; then it is waited for again.
    async fn session_under_lock(&self, inbound: &Inbound) -> Result<Found, StoreError> {
        let belongs = || self.session_of(inbound);
        let mut wanted = match retry_while_busy(&self.stop, belongs).await? {
            Belongs::To(id) => id,
            Belongs::Left(went_to) => return Ok(Found::Left(went_to)),
        };
        loop {
            tracing::debug!(session = wanted, "a message waits for its turn");
            let conversation = || async { self.store.root(&wanted) };
            let conversation = retry_while_busy(&self.stop, conversation).await?;
            let lock = tokio::select! {
                lock = self.turns.locks.take(&conversation) => lock,
                () = self.draining.cancelled() => return Ok(Found::Stopping),
            };
            // Both may have come at once.
            if self.draining.is_cancelled() {
                return Ok(Found::Stopping);
            }
            match retry_while_busy(&self.stop, belongs).await? {
                Belongs::To(now) if now == wanted => return Ok(Found::Session(wanted, lock)),
                Belongs::To(now) => wanted = now,
                Belongs::Left(went_to) => return Ok(Found::Left(went_to)),
            }
        }
    }

    /// Where the message belongs: where its words stand already, else where the chat is now, else in a fresh session;
    /// but nowhere in a chat whose conversation has left it.
    async fn session_of(&self, inbound: &Inbound) -> Result<Belongs, StoreError> {
        if let Some(begun) = self.store.session_of_inbound(inbound.id).await? {
            return Ok(Belongs::To(begun));
        }
        let key = &inbound.session_key;
        if let Some(live) = self.store.live_session(key).await? {
            return Ok(Belongs::To(live));
        }
        if let Some(left) = self.store.left(key).await? {
            return Ok(Belongs::Left(left.went_to));
        }
        let bound = self.store.bind_fresh_session(key, &inbound.source).await?;
        if bound.fresh {
            self.publish_start(&bound.session_id, &inbound.source.platform);
        }
        Ok(Belongs::To(bound.session_id))
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

    fn passed_over(&self) -> MutexGuard<'_, HashSet<String>> {
        self.passed_over
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}
