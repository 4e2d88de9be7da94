//! Attaches a terminal to a new session, or to an existing one that it brings back from its chat.

use std::sync::Arc;

use super::{AttachedTerminal, Terminals};
use crate::agent::directory;
use crate::clock;
use crate::domain::TERMINAL;
use crate::domain::{RefusalKind, Session, title};
use crate::events::Event;
use crate::sessions::{self, Refusal, RequestError, turn_elsewhere};
use crate::store::{BusyElsewhere, NewTerminalSession, StoreError, WorkingDirectory};

/// The request of a terminal.
#[derive(Debug, Clone, Default)]
pub struct Opening {
    /// Id, title, beginning of an id, or `last`. `None`: a new session.
    pub session: Option<String>,
    /// The title of a new session.
    pub title: Option<String>,
    /// The agent that answers from now on.
    pub agent: Option<String>,
    pub tty: Option<String>,
    /// The current directory of the client.
    pub cwd: Option<String>,
    /// A session that has another directory moves to `cwd`.
    pub here: bool,
    /// The terminal that the client has now. It stays attached if its session is the requested one.
    pub at: Option<Arc<AttachedTerminal>>,
}

#[derive(Debug)]
pub struct OpenedSession {
    pub terminal: Arc<AttachedTerminal>,
    pub session: Session,
    pub resumed: bool,
    /// The platform whose chat had the session.
    pub came_from: Option<String>,
}

/// The name that stands for the last terminal session.
const LAST: &str = "last";

impl Terminals {
    pub async fn open(&self, wish: Opening) -> Result<OpenedSession, RequestError> {
        self.inner.recovered.cancelled().await;
        if let Some(name) = &wish.agent {
            let agent = self.inner.turns.agents().get(name);
            agent.map_err(|why| refusal(RefusalKind::NoAgent, why, "see `hermesctl agents`"))?;
        }
        if let Some(cwd) = &wish.cwd {
            directory::check_name(cwd).map_err(|why| {
                let hint = "send the current directory as an absolute path";
                refusal(RefusalKind::BadDirectory, why, hint)
            })?;
        }
        match wish.session.clone() {
            None => self.begin(wish).await,
            Some(name) => self.resume_session(&name, wish).await,
        }
    }

    /// Brings a session back from its chat. Without a name, the only session that was handed off.
    pub async fn resume(
        &self,
        name: Option<&str>,
    ) -> Result<(Session, Option<String>), RequestError> {
        let session = match name {
            Some(name) => self.find(name).await?,
            None => sessions::handed_off(&self.inner.store).await?,
        };
        let came_from = self.bring_home(&session).await?;
        Ok((
            sessions::resolve(&self.inner.store, &session.id)?,
            came_from,
        ))
    }

    /// Creates the row of a session that has no message yet, because a request needs the row.
    pub async fn ensure_row(&self, session_id: &str) -> Result<(), RequestError> {
        match self.terminal(session_id)? {
            Some(terminal) => Ok(self.create_row(&terminal, None).await?),
            None => Ok(()),
        }
    }

    async fn find(&self, name: &str) -> Result<Session, RequestError> {
        if name != LAST {
            return sessions::resolve(&self.inner.store, name);
        }
        let last = self.inner.store.last_terminal_session().await?;
        last.ok_or_else(|| {
            refusal(
                RefusalKind::UnknownSession,
                "there is no terminal session yet".to_owned(),
                "begin one with `hermesctl chat`",
            )
        })
    }

    async fn resume_session(
        &self,
        name: &str,
        wish: Opening,
    ) -> Result<OpenedSession, RequestError> {
        let session = self.find(name).await?;
        let conversation = self.inner.store.root(&session.id)?;
        let kept = wish
            .at
            .filter(|terminal| terminal.conversation == conversation);
        let stays = kept.is_some();
        let id = session.id.clone();
        let tty = wish.tty;
        let terminal =
            kept.unwrap_or_else(|| AttachedTerminal::new(conversation, id, tty, None, None, true));
        let moves = wish.here;
        let cwd = wish.cwd.map(|path| WorkingDirectory { path, moves });
        if !stays {
            self.attach(&terminal, &session)?;
        }
        let taken = async {
            let came_from = self.bring_home(&session).await?;
            let tty = terminal.tty.as_deref();
            let id = self
                .inner
                .store
                .open_terminal(&session.id, tty, cwd)
                .await?;
            if let Some(agent) = wish.agent.as_deref() {
                self.inner.store.remember_agent(&id, agent).await?;
            }
            terminal.continue_in(id.clone());
            let session = sessions::resolve(&self.inner.store, &id)?;
            Ok((session, came_from))
        };
        match taken.await {
            Ok((session, came_from)) => {
                // A terminal that stays attached begins nothing.
                if !stays || came_from.is_some() {
                    self.publish_start(&session.id, session.model.clone(), true);
                }
                Ok(OpenedSession {
                    terminal,
                    session,
                    resumed: true,
                    came_from,
                })
            }
            Err(error) => {
                if !stays {
                    self.inner.attached().remove(&terminal.conversation);
                }
                Err(error)
            }
        }
    }

    /// A session has one terminal: two would mix their messages, and the first to leave would end the session.
    fn attach(
        &self,
        terminal: &Arc<AttachedTerminal>,
        session: &Session,
    ) -> Result<(), RequestError> {
        let mut attached = self.inner.attached();
        if let Some(other) = attached.get(&terminal.conversation) {
            let place = other.tty.as_deref().unwrap_or("another program");
            return Err(refusal(
                RefusalKind::OpenElsewhere,
                format!("\"{}\" is open in {place}", session.label()),
                "leave it there first",
            ));
        }
        attached.insert(terminal.conversation.clone(), terminal.clone());
        Ok(())
    }

    async fn begin(&self, wish: Opening) -> Result<OpenedSession, RequestError> {
        let title = wish.title.as_deref();
        let title = title.map(title::clean).transpose().map_err(|too_long| {
            refusal(
                RefusalKind::TitleTooLong,
                too_long.to_string(),
                "shorten it",
            )
        })?;
        let title = title.flatten();
        let now = clock::now();
        let id = clock::session_id(now);
        let terminal = AttachedTerminal::new(
            id.clone(),
            id.clone(),
            wish.tty,
            wish.agent,
            wish.cwd.clone(),
            false,
        );
        if title.is_some() {
            self.create_row(&terminal, title.as_deref())
                .await
                .map_err(taken_title)?;
        }
        self.inner.attached().insert(id.clone(), terminal.clone());
        let session = Session {
            title,
            cwd: wish.cwd,
            ..Session::unsaved(&id, now)
        };
        Ok(OpenedSession {
            terminal,
            session,
            resumed: false,
            came_from: None,
        })
    }

    /// Gives a new session its row, once.
    pub(super) async fn create_row(
        &self,
        terminal: &AttachedTerminal,
        title: Option<&str>,
    ) -> Result<(), StoreError> {
        let mut has_row = terminal.has_row.lock().await;
        if *has_row {
            return Ok(());
        }
        let (store, id) = (&self.inner.store, &terminal.session_id());
        let agent = self.agent_at(terminal)?.ok();
        let model = agent.and_then(|(agent, _)| agent.model());
        let new = NewTerminalSession {
            id: id.clone(),
            title: title.map(str::to_owned),
            model: model.clone(),
            agent: terminal.agent.clone(),
            tty: terminal.tty.clone(),
            cwd: terminal.cwd.clone(),
        };
        store.create_terminal_session(new).await?;
        *has_row = true;
        self.publish_start(id, model, false);
        Ok(())
    }

    async fn bring_home(&self, session: &Session) -> Result<Option<String>, RequestError> {
        let name = session.label();
        let busy = |what: &str, hint: &str| {
            refusal(
                RefusalKind::TurnInProgress,
                format!("\"{name}\" is busy: {what}"),
                hint,
            )
        };
        // Held while the session moves, so that no turn begins meanwhile.
        let Some(_lease) = self.inner.turns.try_lock(&session.id)? else {
            return Err(busy(
                "the agent is in the middle of a turn",
                "wait until it has answered, or say /stop where it is",
            ));
        };
        if let Some(what) = turn_elsewhere(&self.inner.store, &session.id)? {
            let is = match what {
                BusyElsewhere::Turn(_) => "is",
                BusyElsewhere::Seems(_) => "seems to be",
            };
            return Err(busy(
                &format!("another program {is} in the middle of a turn, {what}"),
                "wait until it has answered",
            ));
        }
        let departure = match self.inner.store.take_home(&session.id).await {
            Ok(departure) => departure,
            Err(StoreError::Conflict(reason)) => {
                return Err(refusal(
                    RefusalKind::InFlight,
                    reason,
                    "wait for its end; `hermesctl handoffs cancel ID` stops it",
                ));
            }
            Err(error) => return Err(error.into()),
        };
        let Some(departure) = departure else {
            return Ok(None);
        };
        let from = departure.from.platform;
        tracing::info!(
            session = session.id,
            platform = from,
            "session brought back to the terminal"
        );
        self.inner.chat_queue.post(departure.note);
        self.inner.bus.publish(Event::SessionMoved {
            session_id: session.id.clone(),
            to: TERMINAL.to_owned(),
        });
        Ok(Some(from))
    }

    fn publish_start(&self, session_id: &str, model: Option<String>, resumed: bool) {
        self.inner.bus.publish(Event::SessionStarted {
            session_id: session_id.to_owned(),
            platform: "cli".to_owned(),
            model,
            resumed,
        });
    }
}

fn taken_title(error: StoreError) -> RequestError {
    match error {
        StoreError::Conflict(message) => refusal(
            RefusalKind::TitleTaken,
            message,
            "choose another, or rename that session first",
        ),
        error => error.into(),
    }
}

pub(super) fn refusal(kind: RefusalKind, message: String, hint: &str) -> RequestError {
    RequestError::Refused(Refusal {
        kind,
        message,
        hint: Some(hint.to_owned()),
    })
}
