//! Runs the slash commands of a chat. Each returns its answer to the person.

use std::sync::Arc;

use crate::clock;
use crate::domain::Button;
use crate::domain::TranscriptWriter;
use crate::domain::slash_command::{self, Command, Place};
use crate::domain::{Session, Source};
use crate::events::Event;
use crate::inbound::interactions::RESUME;
use crate::inbound::{Inner, Notice, Right};
use crate::sessions::{self, RequestError};
use crate::store::retry_while_busy;
use crate::store::{BusyElsewhere, Inbound, SessionFilter, StoreError};

/// The number of sessions in a list.
const LISTED: usize = 10;

impl Inner {
    /// Why this person may not use this command here. `None`: they may.
    pub(super) async fn refusal(
        &self,
        inbound: &Inbound,
        command: Command,
        rest: &str,
    ) -> Result<Option<String>, StoreError> {
        let source = &inbound.source;
        let right = match command {
            Command::Sessions | Command::Resume => Right::OtherSessions,
            Command::Sethome => Right::Home,
            // Without text it only shows the title.
            Command::Title if rest.is_empty() => return Ok(None),
            Command::Title | Command::New | Command::Retry if self.keys.is_shared(source) => {
                Right::SharedSession
            }
            _ => return Ok(None),
        };
        if self.may(source, right).await? {
            return Ok(None);
        }
        tracing::info!(
            platform = source.platform,
            chat = source.chat_id,
            user = source.user_id,
            ?command,
            "command refused, the person lacks the right to it"
        );
        Ok(Some(self.refused(source, right)))
    }

    /// The answer to a person without this right.
    pub(super) fn refused(&self, source: &Source, right: Right) -> String {
        let platform = &source.platform;
        let refused = match right {
            Right::OtherSessions => "Only the owner of this bot may see and fetch other sessions.",
            Right::Home => "Only the owner of this bot may choose where handoffs go.",
            Right::Approvals => "Only the owner of this bot may answer that.",
            Right::SharedSession => {
                "Several people share this conversation. Only the owner of this bot may do that here."
            }
            Right::OthersTurn => "This answer is for another person. You may not stop it.",
        };
        let owner_is_known = self.rules.get().access.owner(platform).is_some();
        match &source.user_id {
            Some(id) if !owner_is_known => format!(
                "{refused}\nNo owner is configured. If the bot is yours, set `platforms.{platform}.owner = \"{id}\"` in hermesd.toml."
            ),
            _ => refused.to_owned(),
        }
    }

    pub(super) async fn perform(
        self: &Arc<Self>,
        inbound: &Inbound,
        command: Command,
        rest: &str,
    ) -> Result<Notice, StoreError> {
        let answer = match command {
            Command::Resume => return self.resume(inbound, rest).await,
            Command::Sessions => self.list().await?.0,
            Command::Title => self.title(inbound, rest).await?,
            Command::New => self.new_session(inbound).await?,
            Command::Stop => self.stop_answer(inbound).await?,
            Command::Status => self.status(inbound).await?,
            Command::Sethome => self.set_home(inbound).await?,
            Command::Help | Command::Handoff | Command::Quit | Command::Retry => {
                slash_command::help(Place::Chat)
            }
        };
        Ok(answer.into())
    }

    /// Takes back the last words of the person and their answer, and returns the message with those words.
    /// `Some(None)`: there are none. `None`: the wait for another program ended without a turn.
    pub(super) async fn retry(
        self: &Arc<Self>,
        inbound: &Inbound,
    ) -> Result<Option<Option<Inbound>>, StoreError> {
        let Some(here) = self.here(inbound).await? else {
            return Ok(Some(None));
        };
        let conversation = || async { self.store.root(&here.id) };
        let conversation = retry_while_busy(&self.stop, conversation).await?;
        let lock = self.turns.locks.acquire(&conversation);
        let mut lock = tokio::select! {
            lock = lock => lock,
            () = self.draining.cancelled() => return Err(StoreError::Cancelled),
        };
        // The turn takes the lease later. Here it is only checked.
        let platform = &inbound.source.platform;
        lock.share(
            self.store
                .turn_lease(&here.id, platform, TranscriptWriter::Agent),
        );
        let store = lock.store(&self.store);
        let cancel = self.stop.child_token();
        let _stoppable = self.stoppable(inbound, cancel.clone());
        let retry = || store.retry_inbound(inbound.id, &here.id);
        self.when_free(inbound, &lock, &cancel, retry).await
    }

    async fn status(&self, inbound: &Inbound) -> Result<String, StoreError> {
        let Some(here) = self.here(inbound).await? else {
            return Ok(
                "There is no conversation here yet. Your next message begins one.".to_owned(),
            );
        };
        let title = here.title.as_deref().unwrap_or("no title");
        let agent = match self.turns.agent_of(&here.id, &inbound.source.platform)? {
            Ok((agent, _)) => match agent.model().or(here.model.clone()) {
                Some(model) if model != agent.name() => format!("{} ({model})", agent.name()),
                _ => agent.name().to_owned(),
            },
            Err(error) => format!("no agent: {error}"),
        };
        let now = if !self.answering().contains_key(&inbound.session_key) {
            "I am waiting for your next message."
        } else if let Some(BusyElsewhere::Turn(_)) = self.store.busy_elsewhere(&here.id)? {
            "Another program is at work in this conversation. I answer when it is done."
        } else {
            "I am writing an answer."
        };
        Ok(format!(
            "{title}\n{}, {} messages\nAnswered by {agent}.\n{now}",
            here.id, here.message_count
        ))
    }

    /// The session of this chat, if it is on one.
    async fn here(&self, inbound: &Inbound) -> Result<Option<Session>, StoreError> {
        let live = || self.store.live_session(&inbound.session_key);
        let here = match retry_while_busy(&self.stop, live).await? {
            Some(id) => Some(id),
            // The chat may have ended while the message waited.
            None => self.store.session_of_inbound(inbound.id).await?,
        };
        match here {
            Some(id) => self.store.session(&id).await,
            None => Ok(None),
        }
    }

    async fn resume(self: &Arc<Self>, inbound: &Inbound, name: &str) -> Result<Notice, StoreError> {
        let session = if name.is_empty() {
            match self.store.left(&inbound.session_key).await? {
                Some(left) => {
                    let tip = self.store.tip(&left.session_id).await?;
                    self.store.session(&tip).await?
                }
                None => None,
            }
        } else {
            match sessions::resolve(&self.store, name) {
                Ok(session) => Some(session),
                Err(refused) => return Ok(refusal_text(refused)?.into()),
            }
        };
        let Some(session) = session else {
            let (list, sessions) = self.list().await?;
            return Ok(Notice {
                text: format!("Which one? Say /resume with its id or title.\n{list}"),
                buttons: sessions.iter().map(choice).collect(),
            });
        };
        Ok(self.bring_here(inbound, session).await?.into())
    }

    async fn bring_here(
        self: &Arc<Self>,
        inbound: &Inbound,
        session: Session,
    ) -> Result<String, StoreError> {
        let name = session.label();
        if self
            .here(inbound)
            .await?
            .is_some_and(|here| here.id == session.id)
        {
            return Ok(format!("\"{name}\" is already here."));
        }
        // Held during the move, so that no turn of the session begins.
        let lock = || async { self.turns.try_lock(&session.id) };
        let Some(_lease) = retry_while_busy(&self.stop, lock).await? else {
            return Ok(format!(
                "\"{name}\" is in the middle of an answer. Try again when it is done."
            ));
        };
        let elsewhere = || async { self.store.busy_elsewhere(&session.id) };
        if let Some(BusyElsewhere::Turn(by)) = retry_while_busy(&self.stop, elsewhere).await? {
            return Ok(format!(
                "Another program is in the middle of an answer in \"{name}\" ({by}). Try again when it is done."
            ));
        }
        let (key, source) = (&inbound.session_key, &of_chat(inbound));
        let moved = retry_while_busy(&self.stop, || {
            self.store.take_to_chat(&session.id, key, source)
        });
        match moved.await {
            Ok(departure) => {
                if let Some(departure) = departure {
                    self.post(departure.note);
                }
                self.show_return(source);
                tracing::info!(
                    session = session.id,
                    platform = source.platform,
                    key,
                    "session moved to a chat"
                );
                self.bus.publish(Event::SessionMoved {
                    session_id: session.id.clone(),
                    to: source.platform.clone(),
                });
                Ok(format!(
                    "\"{name}\" is here now, with its {} messages. You can continue.",
                    session.message_count
                ))
            }
            Err(StoreError::Conflict(reason)) => Ok(format!("That is not possible now: {reason}.")),
            Err(error) => Err(error),
        }
    }

    /// Undoes what the platform has shown when the last session left this thread. Nothing waits for it.
    fn show_return(&self, thread: &Source) {
        let Some(platform) = self.platforms.adapter(&thread.platform) else {
            return;
        };
        if thread.thread_id.is_none() {
            return;
        }
        let thread = thread.clone();
        tokio::spawn(async move {
            if let Err(error) = platform.thread_resumed(&thread).await {
                tracing::warn!(%error, platform = thread.platform, chat = thread.chat_id, "return to a thread not shown");
            }
        });
    }

    async fn list(&self) -> Result<(String, Vec<Session>), StoreError> {
        let filter = SessionFilter {
            limit: LISTED,
            ..SessionFilter::default()
        };
        let list = || self.store.list_sessions(filter.clone());
        let sessions = retry_while_busy(&self.stop, list).await?;
        if sessions.is_empty() {
            return Ok(("There are no sessions yet.".to_owned(), sessions));
        }
        let now = clock::now();
        let line = |s: &Session| {
            let age = clock::age(now - s.started_at);
            let title = s.title.as_deref().unwrap_or("no title");
            format!("{}  {title} ({}, {age} old)", s.id, s.source)
        };
        let lines = sessions.iter().map(line).collect::<Vec<_>>();
        Ok((lines.join("\n"), sessions))
    }

    async fn title(&self, inbound: &Inbound, title: &str) -> Result<String, StoreError> {
        let Some(here) = self.here(inbound).await? else {
            return Ok("There is no conversation here yet.".to_owned());
        };
        if title.is_empty() {
            return Ok(match here.title {
                Some(title) => format!("This is \"{title}\"."),
                None => "This conversation has no title.".to_owned(),
            });
        }
        match sessions::rename(&self.store, &here.id, title).await {
            Ok(session) => Ok(format!("This is \"{}\" now.", session.label())),
            Err(refused) => refusal_text(refused),
        }
    }

    async fn new_session(&self, inbound: &Inbound) -> Result<String, StoreError> {
        let (key, source) = (&inbound.session_key, &of_chat(inbound));
        let before = self.here(inbound).await?;
        let start = || self.store.start_anew(key, source);
        let (ended, id) = retry_while_busy(&self.stop, start).await?;
        if before.is_none() {
            self.show_return(source);
        }
        if let Some(session_id) = ended {
            self.bus.publish(Event::SessionEnded {
                session_id,
                platform: source.platform.clone(),
                model: before.and_then(|session| session.model),
                interrupted: false,
            });
        }
        self.publish_start(&id, &source.platform);
        Ok("A new conversation. What is it about?".to_owned())
    }

    /// Cancels the turn. The turn delivers the text so far.
    async fn stop_answer(&self, inbound: &Inbound) -> Result<String, StoreError> {
        let (source, key) = (&inbound.source, &inbound.session_key);
        let answer = self
            .answering()
            .get(key)
            .map(|answer| (answer.cancel.clone(), answer.user_id.clone()));
        let Some((cancel, asker)) = answer else {
            return Ok("There is nothing to stop.".to_owned());
        };
        let is_own = asker.is_some() && asker == source.user_id;
        if !is_own && !self.may(source, Right::OthersTurn).await? {
            return Ok(self.refused(source, Right::OthersTurn));
        }
        cancel.cancel();
        Ok("Stopping.".to_owned())
    }
}

/// The source of a command without its message, which may be no message of the platform.
fn of_chat(inbound: &Inbound) -> Source {
    Source {
        message_id: None,
        ..inbound.source.clone()
    }
}

/// The button that resumes a session.
fn choice(session: &Session) -> Button {
    Button {
        label: session.label().to_owned(),
        data: format!("{RESUME}:{}", session.id),
    }
}

/// The text of a refusal. Other errors stay errors.
fn refusal_text(error: RequestError) -> Result<String, StoreError> {
    match error {
        RequestError::Store(error) => Err(error),
        RequestError::Refused(refusal) => Ok(match refusal.hint {
            Some(hint) => format!("{}\n({hint})", refusal.message),
            None => refusal.message,
        }),
    }
}
