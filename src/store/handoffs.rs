//! The operations on handoffs: those that Hermes has too, and the evidence of each stage.
//!
//! Other programs see `sessions.handoff_state`. The journal holds the evidence. Every change is a compare-and-set on
//! both, in one transaction, under the fence of the caller's claim.

use std::collections::HashSet;

use rusqlite::{OptionalExtension, ToSql, params};

use super::retract::Said;
use super::{
    Delivery, Departure, NewDelivery, Replaced, Store, StoreError, TurnEnd, binding, deliveries,
    lenient, lineage, moves, retract, sessions, turn_leases, turns,
};
use crate::clock;
use crate::domain::Reply;
use crate::domain::Source;
use crate::domain::TranscriptWriter;
use crate::domain::{Handoff, HandoffStage, HandoffState, NOTICE_STAYS, RequestedVia};
use crate::domain::{HomeChannel, ThreadOutcome};
use crate::store::handoff_log::{self, Evidence};

/// The longest error that Hermes stores, in characters.
const ERROR_LENGTH: usize = 500;

/// The right to change one running handoff. The fence grows with every owner, so an old claim changes nothing.
#[derive(Debug, Clone, PartialEq)]
pub struct Claim {
    pub handoff: Handoff,
    /// The name of the session for people.
    pub session_name: String,
    /// The notice of its turn could not be removed from the transcript.
    pub notice_stays: bool,
    /// The deliveries of the answer, if this owner has just written them. Otherwise the ledger has them.
    pub deliveries: Vec<Delivery>,
    /// Ledger rows and message ids of this owner's sends, until they are recorded.
    pub sent: Option<Vec<(i64, String)>>,
    pub fence: i64,
}

/// The agent's reply to the handoff's notice, and its deliveries.
#[derive(Debug, Clone)]
pub struct Answer {
    pub notice: String,
    pub reply: Reply,
    pub deliveries: Vec<NewDelivery>,
    /// Writes, or has written, both to the transcript.
    pub transcript_writer: TranscriptWriter,
}

/// The result of recording an answer.
#[derive(Debug, Clone)]
pub struct Recorded {
    pub deliveries: Vec<Delivery>,
    /// The session of the handoff. Compression may have split it during the turn.
    pub session_id: String,
}

/// The handoff columns of a session's row, as other programs see them.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RowState {
    pub state: Option<HandoffState>,
    pub platform: Option<String>,
    pub error: Option<String>,
}

/// Ends the send key of the note about a failed handoff, before the number of the piece.
const FAILED: &str = ":failed";

/// The send key of the note about a failed handoff.
pub fn failure_key(handoff_id: i64) -> String {
    format!("handoff:{handoff_id}{FAILED}")
}

impl Delivery {
    /// Whether it is the note about a failed handoff.
    pub fn is_failure_note(&self) -> bool {
        let key = self.send_key.rsplit_once(':').map(|(key, _)| key);
        key.is_some_and(|key| key.ends_with(FAILED))
    }
}

/// Cuts an error to the length that Hermes stores.
pub fn cut_error(text: &str) -> String {
    text.chars().take(ERROR_LENGTH).collect()
}

/// Adds to a reason that the handoff's notice stays in the transcript.
pub(super) fn with_notice_stays(reason: &str) -> String {
    let room = ERROR_LENGTH.saturating_sub(NOTICE_STAYS.chars().count() + 2);
    let reason: String = reason.chars().take(room).collect();
    format!("{reason}; {NOTICE_STAYS}")
}

/// The operations that Hermes has too.
/// What a settled handoff leaves to be told.
#[derive(Debug, Default)]
pub struct Settled {
    /// The chat that the session has left.
    pub departure: Option<Departure>,
    /// The session whose place it has taken.
    pub replaced: Option<Replaced>,
}

impl Store {
    /// Requests a handoff. Refused if one is in flight.
    pub async fn request_handoff(
        &self,
        session_id: &str,
        platform: &str,
        note: Option<&str>,
        via: RequestedVia,
        after_turn: bool,
    ) -> Result<Handoff, StoreError> {
        let (session_id, platform, note) = (
            session_id.to_owned(),
            platform.to_owned(),
            note.map(str::to_owned),
        );
        self.change(move |c, changed| {
            let session_id = lineage::settle(c, changed, &session_id)?;
            let asked = c
                .prepare_cached(
                    "UPDATE sessions SET handoff_state = 'pending', handoff_platform = ?2, handoff_error = NULL
                     WHERE id = ?1 AND (handoff_state IS NULL OR handoff_state IN ('completed', 'failed'))",
                )?
                .execute([&session_id, &platform])?;
            if asked == 0 {
                return Err(StoreError::Conflict(match sessions::by_id(c, &session_id)? {
                    None => format!("there is no session {session_id}"),
                    Some(s) => format!("a handoff of {session_id} is {} already", s.handoff_state.unwrap_or_default()),
                }));
            }
            let id = handoff_log::open(c, changed, &session_id, &platform, note.as_deref(), via)?;
            if after_turn {
                c.execute("UPDATE hermesd_handoffs SET after_turn = 1 WHERE id = ?1", [id])?;
            }
            handoff_log::by_id(c, id)?.ok_or(StoreError::Closed)
        })
        .await
    }

    pub async fn handoff_state(&self, session_id: &str) -> Result<Option<RowState>, StoreError> {
        let session_id = session_id.to_owned();
        self.read(move |c| {
            let tip = sessions::tip(c, &session_id)?;
            let row = sessions::by_id(c, &tip)?.map(|s| RowState {
                state: s.handoff_state.as_deref().and_then(HandoffState::parse),
                platform: s.handoff_platform,
                error: s.handoff_error,
            });
            Ok(row)
        })
        .await
    }

    /// Claims a pending row. `None` if another daemon has claimed it, or if it was withdrawn.
    pub async fn claim_handoff(
        &self,
        session_id: &str,
        owner: &str,
        lease_until: f64,
        home_of: impl Fn(&str) -> Option<HomeChannel> + Send + 'static,
    ) -> Result<Option<Claim>, StoreError> {
        let (session_id, owner) = (session_id.to_owned(), owner.to_owned());
        self.change_unflushed(move |c, changed| {
            let session_id = lineage::settle(c, changed, &session_id)?;
            let claimed = c
                .prepare_cached(
                    "UPDATE sessions SET handoff_state = 'running' WHERE id = ?1 AND handoff_state = 'pending'",
                )?
                .execute([&session_id])?;
            if claimed == 0 {
                return Ok(None);
            }
            let session = sessions::by_id(c, &session_id)?.ok_or(StoreError::Closed)?;
            let platform = session.handoff_platform.as_deref().unwrap_or_default();
            let id = handoff_log::adopt(c, changed, &session_id, platform)?;
            handoff_log::start(c, &session, id, &owner, lease_until, &home_of).map(Some)
        })
        .await
    }

    /// Settles a handoff whose reply is in the chat. The session now leaves its former chat, if it had one, and takes
    /// the place of another one, if one was there.
    pub async fn complete_handoff(&self, claim: &Claim) -> Result<Settled, StoreError> {
        let (id, fence, session_id) = (
            claim.handoff.id,
            claim.fence,
            claim.handoff.session_id.clone(),
        );
        let (sent, platform) = (claim.sent.clone(), claim.handoff.platform.clone());
        let sent_before = claim.handoff.sent_ids.clone();
        let left = self.look(|c| handoff_log::left_behind(c, id))?;
        let mirrored = match &left {
            Some(key) => self.mirrored(key).await.map(|entry| entry.to_string()),
            None => None,
        };
        self.change(move |c, changed| {
            let session_id = lineage::settle(c, changed, &session_id)?;
            let (state, now, none) = (
                HandoffState::Completed.as_str(),
                clock::now(),
                None::<String>,
            );
            let mut stages = vec![HandoffStage::Settled];
            let mut evidence: Vec<(&str, &dyn ToSql)> = vec![
                ("state", &state),
                ("ended_at", &now),
                ("owner", &none),
                ("lease_until", &none),
            ];
            let sent_ids;
            if let Some(sent) = &sent {
                let sent_now = sent.iter().map(|(_, message)| message);
                let ids: Vec<&String> = sent_before.iter().chain(sent_now).collect();
                sent_ids = serde_json::to_string(&ids).unwrap_or_default();
                evidence.push(("sent_ids", &sent_ids));
                stages.insert(0, HandoffStage::Delivered);
                for (delivery, message) in sent {
                    deliveries::end(c, *delivery, Ok(message))?;
                }
            }
            handoff_log::advance(c, id, fence, &stages, now, &evidence)?;
            c.prepare_cached(
                "UPDATE sessions SET handoff_state = 'completed', handoff_error = NULL
                 WHERE id = ?1 AND handoff_state = 'running'",
            )?
            .execute([&session_id])?;
            let replaced = super::replaced::note(c, changed, id)?;
            let departure = match &left {
                Some(key) => {
                    let mirrored = mirrored.as_deref();
                    moves::depart_from(c, changed, &session_id, key, &platform, mirrored)?
                }
                None => None,
            };
            Ok(Settled {
                departure,
                replaced,
            })
        })
        .await
    }

    /// Fails a running handoff, undoes its changes and stores the notes to its chat. Returns the reason as it is
    /// recorded, which says what could not be undone, and the notes.
    pub async fn fail_handoff(
        &self,
        claim: &Claim,
        reason: &str,
        notes: Vec<NewDelivery>,
    ) -> Result<(String, Vec<Delivery>), StoreError> {
        let (id, fence) = (claim.handoff.id, claim.fence);
        let reason = match claim.notice_stays {
            true => with_notice_stays(reason),
            false => cut_error(reason),
        };
        // The thread may be open although its stage was not reached.
        let thread = claim.handoff.thread.as_ref();
        let thread = thread.and_then(|opened| serde_json::to_string(opened).ok());
        let session_id = claim.handoff.session_id.clone();
        self.change(move |c, changed| {
            lineage::settle(c, changed, &session_id)?;
            handoff_log::hold(c, id, fence)?;
            let (session, reason) = handoff_log::close(c, changed, id, &reason)?;
            c.execute(
                "UPDATE hermesd_handoffs SET thread = COALESCE(thread, ?2) WHERE id = ?1",
                params![id, thread],
            )?;
            c.execute(
                "UPDATE sessions SET handoff_state = 'failed', handoff_error = ?2
                 WHERE id = ?1 AND handoff_state = 'running'",
                params![session, reason],
            )?;
            Ok((reason, deliveries::insert_all(c, &notes)?))
        })
        .await
    }
}

/// The evidence of the stages.
impl Store {
    /// Records that a thread will be opened. Returns the time of an earlier attempt, which may have opened a thread
    /// without recording it. Earlier versions stored 1 instead of a time.
    pub async fn thread_wanted(&self, claim: &Claim) -> Result<Option<f64>, StoreError> {
        let (id, fence) = (claim.handoff.id, claim.fence);
        self.write(move |c| {
            handoff_log::hold(c, id, fence)?;
            let before: i64 = c
                .prepare_cached("SELECT opening FROM hermesd_handoffs WHERE id = ?1")?
                .query_row([id], |row| row.get(0))?;
            if before != 0 {
                return Ok(Some(before as f64));
            }
            c.prepare_cached("UPDATE hermesd_handoffs SET opening = ?2 WHERE id = ?1")?
                .execute([id, clock::now() as i64])?;
            Ok(None)
        })
        .await
    }

    pub async fn record_thread(
        &self,
        claim: &Claim,
        opened: &ThreadOutcome,
    ) -> Result<(), StoreError> {
        let (id, fence) = (claim.handoff.id, claim.fence);
        let opened = serde_json::to_string(opened).unwrap_or_default();
        self.write_unflushed(move |c| {
            handoff_log::advance(
                c,
                id,
                fence,
                &[HandoffStage::Threaded],
                clock::now(),
                &[("thread", &opened)],
            )
        })
        .await
    }

    /// Whether a handoff in flight has this thread.
    pub async fn is_thread_of_handoff(
        &self,
        platform: &str,
        thread_id: &str,
    ) -> Result<bool, StoreError> {
        let (platform, thread_id) = (platform.to_owned(), thread_id.to_owned());
        self.read(move |c| {
            let mut statement = c.prepare_cached(
                "SELECT 1 FROM hermesd_handoffs INDEXED BY hermesd_handoffs_in_flight
                 WHERE state IN ('pending', 'running') AND platform = ?1 AND thread ->> '$.thread.id' = ?2",
            )?;
            Ok(statement.exists([platform, thread_id])?)
        })
        .await
    }

    /// Binds the chat to the session and records the former state.
    ///
    /// False if another handoff in flight uses this chat. Rolling back either of them would be wrong for the other.
    pub async fn record_binding(
        &self,
        claim: &Claim,
        key: &str,
        source: &Source,
    ) -> Result<bool, StoreError> {
        // A new thread cannot be in use, so it is not looked up.
        let shared = !matches!(claim.handoff.thread, Some(ThreadOutcome::Thread { .. }));
        let mirrored = self.mirrored(key).await.map(|e| e.to_string());
        let (id, fence, session_id) = (
            claim.handoff.id,
            claim.fence,
            claim.handoff.session_id.clone(),
        );
        let (key, source, turn) = (key.to_owned(), source.clone(), self.turn.clone());
        self.change_unflushed(move |c, changed| {
            let session_id = lineage::settle(c, changed, &session_id)?;
            if shared && handoff_log::is_taken(c, id, &key)? {
                return Ok(false);
            }
            let displaced = binding::bind(
                c,
                changed.scope,
                &key,
                &session_id,
                &source,
                mirrored.as_deref(),
            )?;
            let displaced = serde_json::to_string(&displaced).unwrap_or_default();
            changed.keys.push(key.clone());
            let evidence: Evidence<'_> = &[("session_key", &key), ("displaced", &displaced)];
            handoff_log::advance(c, id, fence, &[HandoffStage::Bound], clock::now(), evidence)?;
            // The turn of the handoff follows at once.
            turn_leases::take_if_free(c, &session_id, turn.as_deref())?;
            Ok(true)
        })
        .await
    }

    /// Writes the notice, the reply and its deliveries in one transaction.
    pub async fn record_answer(
        &self,
        claim: &Claim,
        answer: Answer,
    ) -> Result<Recorded, StoreError> {
        let (id, fence, session_id) = (
            claim.handoff.id,
            claim.fence,
            claim.handoff.session_id.clone(),
        );
        let turn = self.turn.clone();
        let recorded = self.change_unflushed(move |c, changed| {
            let session_id = lineage::settle(c, changed, &session_id)?;
            turn_leases::check(c, &session_id, turn.as_deref())?;
            let said = match answer.transcript_writer {
                TranscriptWriter::Daemon => {
                    if let Some(usage) = answer.reply.usage {
                        turns::count(c, &session_id, usage)?;
                    }
                    retract::say(c, &session_id, &answer.notice, &answer.reply)?
                }
                TranscriptWriter::Agent => {
                    let mut rows = turns::rows_of_agent(c, &session_id)?.unwrap_or_default();
                    let end = TurnEnd::Answered(answer.reply.clone());
                    rows.extend(turns::end_notice(c, &session_id, &end)?.unwrap_or_default());
                    Said::of(rows, &answer.notice)
                }
            };
            let said = serde_json::to_string(&said).unwrap_or_default();
            let evidence: Evidence<'_> = &[("reply", &answer.reply.text), ("message_rows", &said)];
            handoff_log::advance(
                c,
                id,
                fence,
                &[HandoffStage::Answered],
                clock::now(),
                evidence,
            )?;
            turn_leases::release(c, &session_id, turn.as_deref())?;
            Ok(Recorded {
                deliveries: deliveries::insert_all(c, &answer.deliveries)?,
                session_id,
            })
        });
        let recorded = recorded.await?;
        self.turn_over();
        Ok(recorded)
    }
}

/// Withdrawing, cancelling and listing.
impl Store {
    /// Fails a pending row that is not claimed. False if it is not pending.
    pub async fn withdraw_handoff(
        &self,
        session_id: &str,
        reason: &str,
    ) -> Result<bool, StoreError> {
        let (session_id, reason) = (session_id.to_owned(), cut_error(reason));
        self.change(move |c, changed| {
            let session_id = lineage::settle(c, changed, &session_id)?;
            let platform: Option<Option<String>> = c
                .query_row(
                    "UPDATE sessions SET handoff_state = 'failed', handoff_error = ?2
                     WHERE id = ?1 AND handoff_state = 'pending' RETURNING handoff_platform",
                    [&session_id, &reason],
                    |row| lenient::text(row, 0),
                )
                .optional()?;
            let Some(platform) = platform else {
                return Ok(false);
            };
            // A row of another program gets a journal row too, so that `hermesctl handoffs` shows its end.
            let id = handoff_log::adopt(c, changed, &session_id, &platform.unwrap_or_default())?;
            handoff_log::close(c, changed, id, &reason)?;
            Ok(true)
        })
        .await
    }

    /// Asks the owner of a running handoff to stop it. False if it has ended or its reply is in the chat.
    pub async fn cancel_handoff(&self, id: i64) -> Result<bool, StoreError> {
        self.write(move |c| {
            let asked = c.execute(
                "UPDATE hermesd_handoffs SET cancel_requested = 1
                 WHERE id = ?1 AND state = 'running' AND stage NOT IN ('delivered', 'settled')",
                [id],
            )?;
            Ok(asked == 1)
        })
        .await
    }

    pub fn handoff(&self, id: i64) -> Result<Option<Handoff>, StoreError> {
        self.look(|c| handoff_log::by_id(c, id))
    }

    /// `None` if there is no such handoff.
    pub fn handoff_state_of(&self, id: i64) -> Result<Option<HandoffState>, StoreError> {
        self.look(|c| {
            let mut statement =
                c.prepare_cached("SELECT state FROM hermesd_handoffs WHERE id = ?1")?;
            let state: Option<String> = statement.query_row([id], |row| row.get(0)).optional()?;
            Ok(state.as_deref().and_then(HandoffState::parse))
        })
    }

    pub async fn handoffs_in_flight(&self) -> Result<HashSet<i64>, StoreError> {
        self.read(|c| {
            let mut statement = c.prepare_cached(
                "SELECT id FROM hermesd_handoffs INDEXED BY hermesd_handoffs_in_flight WHERE state IN ('pending', 'running')",
            )?;
            let ids = statement.query_map([], |row| row.get(0))?;
            Ok(ids.collect::<Result<_, _>>()?)
        })
        .await
    }

    /// The newest first.
    pub async fn list_handoffs(
        &self,
        session_id: Option<&str>,
        in_flight: bool,
        limit: usize,
    ) -> Result<Vec<Handoff>, StoreError> {
        let session_id = session_id.map(str::to_owned);
        self.read(move |c| {
            // One statement per case, so that each can use its index.
            let sql = match (&session_id, in_flight) {
                (None, false) => {
                    "SELECT id FROM hermesd_handoffs WHERE ?1 IS NULL ORDER BY id DESC LIMIT ?2"
                }
                (Some(_), false) => {
                    "SELECT id FROM hermesd_handoffs INDEXED BY hermesd_handoffs_session
                     WHERE session_id = ?1 ORDER BY id DESC LIMIT ?2"
                }
                (_, true) => {
                    "SELECT id FROM hermesd_handoffs INDEXED BY hermesd_handoffs_in_flight
                     WHERE (?1 IS NULL OR session_id = ?1) AND state IN ('pending', 'running')
                     ORDER BY id DESC LIMIT ?2"
                }
            };
            let mut statement = c.prepare_cached(sql)?;
            let ids = statement.query_map(params![session_id, limit as i64], |row| row.get(0))?;
            let ids: Vec<i64> = ids.collect::<Result<_, _>>()?;
            ids.into_iter()
                .filter_map(|id| handoff_log::by_id(c, id).transpose())
                .collect()
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use super::cut_error;

    #[test]
    fn reasons_are_cut_between_characters() {
        assert_eq!(cut_error("short"), "short");
        let long = "ü".repeat(700);
        assert_eq!(cut_error(&long).chars().count(), 500);
    }
}
