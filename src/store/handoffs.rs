//! Handoffs: the six operations that Hermes shares with us, and the evidence of each stage.
//!
//! `sessions.handoff_state` is the truth that other programs see; the journal holds the evidence. Every change is a
//! compare-and-set on both, in one transaction, under the fence of the claim that the caller holds.

use std::collections::HashSet;

use rusqlite::{OptionalExtension, ToSql, params};

use super::retract::Said;
use super::{
    Delivery, Departure, NewDelivery, Store, StoreError, TurnEnd, binding, deliveries, lenient,
    lineage, moves, retract, sessions, turn_leases, turns,
};
use crate::clock;
use crate::domain::Reply;
use crate::domain::Source;
use crate::domain::TranscriptWriter;
use crate::domain::{Handoff, HandoffStage, HandoffState, NOTICE_STAYS, RequestedVia};
use crate::domain::{HomeChannel, ThreadOutcome};
use crate::store::handoff_log::{self, Evidence};

/// What Hermes' column takes.
const ERROR_LENGTH: usize = 500;

/// The right to change one running handoff. The fence grows with every owner: an old claim changes nothing.
#[derive(Debug, Clone, PartialEq)]
pub struct Claim {
    pub handoff: Handoff,
    /// What people call the session.
    pub session_name: String,
    /// The notice of its turn could not be taken out of the transcript.
    pub notice_stays: bool,
    /// What its answer has to send, when this owner has just written it; else the ledger knows.
    pub deliveries: Vec<Delivery>,
    /// Ledger rows and the platform's ids of what this owner has sent, until they are recorded.
    pub sent: Option<Vec<(i64, String)>>,
    pub fence: i64,
}

/// The agent's reply to the handoff's notice, and what is to be sent of it.
#[derive(Debug, Clone)]
pub struct Answer {
    pub notice: String,
    pub reply: Reply,
    pub deliveries: Vec<NewDelivery>,
    /// Who wrote both into the transcript, or is to.
    pub scribe: TranscriptWriter,
}

/// What came of an answer that is in the journal.
#[derive(Debug, Clone)]
pub struct Recorded {
    pub deliveries: Vec<Delivery>,
    /// The session that the handoff is of now: compression may have split it during the turn.
    pub session_id: String,
}

/// What a session's row says of its handoff, as other programs see it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RowState {
    pub state: Option<HandoffState>,
    pub platform: Option<String>,
    pub error: Option<String>,
}

/// Behind the id of a handoff in the key of the note that it has failed.
const FAILED: &str = ":failed";

/// Names the note that tells a chat of a failed handoff.
pub fn failure_key(handoff_id: i64) -> String {
    format!("handoff:{handoff_id}{FAILED}")
}

impl Delivery {
    /// It only tells a thread that its handoff has failed.
    pub fn is_failure_note(&self) -> bool {
        let key = self.send_key.rsplit_once(':').map(|(key, _)| key);
        key.is_some_and(|key| key.ends_with(FAILED))
    }
}

/// Cuts a reason to what the column takes, between characters.
pub fn cut_error(text: &str) -> String {
    text.chars().take(ERROR_LENGTH).collect()
}

/// A reason, and that the handoff's notice stays in the transcript.
pub(super) fn with_notice_stays(reason: &str) -> String {
    let room = ERROR_LENGTH.saturating_sub(NOTICE_STAYS.chars().count() + 2);
    let reason: String = reason.chars().take(room).collect();
    format!("{reason}; {NOTICE_STAYS}")
}

/// The six operations of the contract with Hermes.
impl Store {
    /// Asks for a handoff: allowed when none is in flight.
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

    /// Takes a pending row, with the home of its platform. `None`: somebody else was faster, or it was withdrawn.
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

    /// The last step of a handoff that went through: the reply is in the chat, and the row says so. A chat that the session
    /// was on before is left by it.
    pub async fn complete_handoff(&self, claim: &Claim) -> Result<Option<Departure>, StoreError> {
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
            let (state, now, nobody) = (
                HandoffState::Completed.as_str(),
                clock::now(),
                None::<String>,
            );
            let mut stages = vec![HandoffStage::Settled];
            let mut evidence: Vec<(&str, &dyn ToSql)> = vec![
                ("state", &state),
                ("ended_at", &now),
                ("owner", &nobody),
                ("lease_until", &nobody),
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
            let Some(key) = &left else { return Ok(None) };
            moves::depart_from(c, changed, &session_id, key, &platform, mirrored.as_deref())
        })
        .await
    }

    /// Ends a running handoff with a reason and puts everything back as it was before. Keeps what its chat is to hear of it.
    /// Returns that, and the reason as it is recorded: it says what could not be put back.
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
        // A thread whose stage was not reached: it is open all the same.
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

/// The evidence of the stages in between.
impl Store {
    /// A thread is about to be opened. Returns when the first try began, if an earlier one may have opened a thread that
    /// no record knows. Earlier versions wrote no time, which reads as long ago.
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

    /// Puts the chat on the session and remembers what that displaced.
    ///
    /// False: another handoff is at this chat. Both would have to put the other back if they failed.
    pub async fn record_binding(
        &self,
        claim: &Claim,
        key: &str,
        source: &Source,
    ) -> Result<bool, StoreError> {
        // A fresh thread is nobody else's, which need not be looked up.
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

    /// Writes the notice, the reply and the ledger rows of what is to be sent, all at once.
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
            let said = match answer.scribe {
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

/// Taking back, and looking.
impl Store {
    /// Ends a pending row that nobody has claimed. False: it is pending no more.
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
            // A row of another program gets a journal entry too, so that `handoffs` can tell what became of it.
            let id = handoff_log::adopt(c, changed, &session_id, &platform.unwrap_or_default())?;
            handoff_log::close(c, changed, id, &reason)?;
            Ok(true)
        })
        .await
    }

    /// Asks the owner of a running handoff to stop it. False: it runs no more, or its reply is in the chat already.
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

    /// `None`: there is no such handoff.
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
            // Written out per case, so that each can use its index.
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
