//! The [`Backend`] that uses `state.db` if no daemon serves the home. Requests wait there for the next daemon.

use async_trait::async_trait;

use super::{Backend, Status};
use crate::cli::CliError;
use crate::cli::handoff::{self, WaitLimits};
use crate::cli::output::{self, FAINT, Output};
use crate::client::Client;
use crate::config::{Config, paths};
use crate::domain::{HandoffState, RequestedVia};
use crate::handoff::request::{self, HandoffWish};
use crate::platform::{Platforms, local};
use crate::protocol::{
    HandoffList, HandoffView, HitView, LocalMessageView, LocalRead, LocalThreadView, PlatformView,
    ResumedView, SessionList, SessionRename, SessionSearch, SessionView, TranscriptView,
    TranscriptWish,
};
use crate::sessions::{self, Refusal, RequestError, resolve, turn_elsewhere};
use crate::store::{OpenMode, SessionFilter, Store, StoreError};
use crate::views;

/// The default limit of a list, as with a daemon.
const LISTED: usize = 20;
/// The most threads, and the most handoffs in flight, that are listed or counted.
const MOST: usize = 500;
/// The default limit of messages of a local chat.
const SCROLLBACK: usize = 200;

pub(in crate::cli) struct DirectBackend {
    config: Config,
    store: Store,
}

impl DirectBackend {
    /// Fails if the database does not exist.
    pub(in crate::cli) fn open(config: &Config) -> Result<DirectBackend, CliError> {
        let store = Store::open(&config.home, OpenMode::Existing, &config.store)?;
        Ok(DirectBackend {
            config: config.clone(),
            store,
        })
    }

    /// Also opens a database that can only be read.
    pub(in crate::cli) fn open_to_read(config: &Config) -> Result<DirectBackend, CliError> {
        let store = match Store::open(&config.home, OpenMode::Existing, &config.store) {
            Err(StoreError::Unservable { path, why }) => {
                output::to_stderr(&format!(
                    "warning: {} can only be read: {why}",
                    path.display()
                ));
                Store::open_to_read(&config.home, why)?
            }
            opened => opened?,
        };
        Ok(DirectBackend {
            config: config.clone(),
            store,
        })
    }
}

#[async_trait(?Send)]
impl Backend for DirectBackend {
    fn daemon(&self) -> Result<&Client, CliError> {
        Err(CliError::NoDaemon {
            message: format!(
                "hermesd is not running for {}",
                paths::shown(&self.config.home)
            ),
        })
    }

    async fn sessions(&self, wish: SessionList) -> Result<Vec<SessionView>, CliError> {
        let filter = SessionFilter {
            source: wish.source,
            live: wish.live,
            limit: wish.limit.unwrap_or(LISTED),
        };
        let sessions = self.store.list_sessions(filter).await?;
        Ok(sessions.iter().map(views::session).collect())
    }

    async fn session(&self, name: &str) -> Result<SessionView, CliError> {
        Ok(views::session(&resolve(&self.store, name)?))
    }

    async fn transcript(&self, wish: TranscriptWish) -> Result<TranscriptView, CliError> {
        let session = resolve(&self.store, &wish.session)?;
        let transcript = self.store.transcript(&session.id).await?;
        Ok(views::transcript(&session, &transcript, &wish))
    }

    async fn whole_transcript(&self, name: &str) -> Result<TranscriptView, CliError> {
        let session = resolve(&self.store, name)?;
        let transcript = self.store.whole_transcript(&session.id).await?;
        Ok(views::whole_transcript(&session, &transcript))
    }

    async fn search(&self, wish: SessionSearch) -> Result<Vec<HitView>, CliError> {
        let limit = wish.limit.unwrap_or(LISTED);
        let hits = self.store.search(&wish.words, limit).await?;
        Ok(hits.iter().map(views::hit).collect())
    }

    async fn rename(&self, wish: SessionRename) -> Result<SessionView, CliError> {
        let renamed = sessions::rename(&self.store, &wish.session, &wish.title).await?;
        Ok(views::session(&renamed))
    }

    /// The next daemon that starts sends the notice to the chat.
    async fn resume(&self, name: Option<String>) -> Result<ResumedView, CliError> {
        let store = &self.store;
        let session = match &name {
            Some(name) => sessions::resolve(store, name)?,
            None => sessions::handed_off(store).await?,
        };
        let refuse = |kind, message| {
            CliError::from(RequestError::Refused(Refusal {
                kind,
                message,
                hint: Some("wait for its end".into()),
            }))
        };
        if let Some(what) = turn_elsewhere(store, &session.id)? {
            let message = format!("\"{}\" is busy: {what}", session.label());
            return Err(refuse(crate::domain::RefusalKind::TurnInProgress, message));
        }
        let departure = match store.take_home(&session.id).await {
            Ok(departure) => departure,
            Err(StoreError::Conflict(reason)) => {
                return Err(refuse(crate::domain::RefusalKind::InFlight, reason));
            }
            Err(error) => return Err(error.into()),
        };
        let session = sessions::resolve(store, &session.id)?;
        Ok(ResumedView {
            session: views::session(&session),
            came_from: departure.map(|departure| departure.from.platform),
        })
    }

    async fn handoffs(&self, wish: HandoffList) -> Result<Vec<HandoffView>, CliError> {
        let session = match wish.session {
            Some(name) => Some(resolve(&self.store, &name)?.id),
            None => None,
        };
        let limit = wish.limit.unwrap_or(LISTED);
        let handoffs = self
            .store
            .list_handoffs(session.as_deref(), wish.in_flight, limit)
            .await?;
        Ok(handoffs.iter().map(views::listed_handoff).collect())
    }

    async fn handoff(&self, id: i64) -> Result<HandoffView, CliError> {
        match self.store.handoff(id)? {
            Some(handoff) => Ok(views::handoff(&handoff)),
            None => Err(CliError::Refused {
                message: format!("there is no handoff {id}"),
                hint: Some("see `hermesctl handoffs`".into()),
                kind: "not_found".into(),
            }),
        }
    }

    async fn request_handoff(&self, wish: HandoffWish) -> Result<HandoffView, CliError> {
        let platforms = Platforms::configured(&self.config, &self.store);
        // We cannot know whether a turn runs elsewhere. The daemon that accepts the request waits for its end.
        let requested = request::request(
            &self.store,
            &platforms,
            |_| Ok(false),
            &wish,
            RequestedVia::Direct,
        );
        let (handoff, chosen_by) = requested.await?;
        Ok(views::requested_handoff(&handoff, chosen_by))
    }

    async fn follow_handoff(
        &self,
        out: &Output,
        handoff: HandoffView,
        limits: WaitLimits,
    ) -> Result<(), CliError> {
        let waits = "no daemon answers: the request waits in the database for the next daemon";
        out.line(out.styled(FAINT, waits))?;
        handoff::watch(&self.store, out, handoff, limits).await
    }

    /// Withdraws a request that no daemon has claimed. A running handoff needs a daemon.
    async fn cancel_handoff(&self, id: i64) -> Result<HandoffView, CliError> {
        let pending = self.handoff(id).await?;
        // The session's row may belong to a later handoff by now.
        let withdrawn = pending.state == HandoffState::Pending.as_str()
            && self
                .store
                .withdraw_handoff(&pending.session, "cancelled")
                .await?;
        if !withdrawn {
            return Err(CliError::Refused {
                message: format!(
                    "handoff {id} is {}, and cannot be cancelled without a daemon",
                    pending.state
                ),
                hint: Some("hermesd resumes or rolls back a running handoff when it starts".into()),
                kind: "too_late".into(),
            });
        }
        self.handoff(id).await
    }

    /// The platforms as configured. Only a daemon knows whether a platform works.
    async fn platforms(&self) -> Result<Vec<PlatformView>, CliError> {
        let platforms = Platforms::configured(&self.config, &self.store).all();
        Ok(platforms.into_iter().map(views::platform).collect())
    }

    async fn status(&self) -> Result<Status, CliError> {
        let in_flight = self.store.list_handoffs(None, true, MOST).await?;
        Ok(Status::Unserved {
            sessions: self.store.session_count().await?,
            handoffs_in_flight: in_flight.len(),
        })
    }

    async fn local_threads(&self) -> Result<Vec<LocalThreadView>, CliError> {
        let threads = self.store.local_threads(MOST).await?;
        Ok(threads.into_iter().map(views::local_thread).collect())
    }

    async fn local_messages(&self, wish: LocalRead) -> Result<Vec<LocalMessageView>, CliError> {
        let configured = self.config.platform(local::NAME);
        let chat = configured.and_then(|p| p.home_channel.clone());
        let chat = chat.map_or_else(|| "home".into(), |home| home.chat_id);
        let thread = wish
            .thread
            .map(|thread| thread.to_string())
            .unwrap_or_default();
        let limit = wish.limit.unwrap_or(SCROLLBACK);
        let messages = self.store.local_messages(&chat, &thread, wish.after, limit);
        Ok(views::local_messages(messages.await?))
    }
}
