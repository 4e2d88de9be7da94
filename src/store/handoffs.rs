//! Handoffs: the columns that Hermes shares with us, and our journal beside them.
//!
//! `sessions.handoff_state` is the truth that other programs see; `hermesd_handoffs` holds the evidence. Every change is
//! a compare-and-set on both, in one transaction, under the fence of the lease that the caller holds.

use rusqlite::{Connection, OptionalExtension, Row, params};

use super::messages::{self, NewMessage};
use super::routing::{self, Displaced};
use super::{NewDelivery, Store, StoreError, deliveries, sessions};
use crate::clock;
use crate::handoff::{Handoff, Stage, State, Via};
use crate::platform::{Home, Opened};
use crate::session::Source;
use crate::session::transcript::Role;

/// What Hermes' column takes.
const ERROR_LENGTH: usize = 500;

/// The right to change one running handoff. The fence grows with every owner: an old claim changes nothing.
#[derive(Debug, Clone, PartialEq)]
pub struct Claim {
    pub handoff: Handoff,
    pub fence: i64,
}

/// A running handoff that may have lost its owner.
#[derive(Debug, Clone, PartialEq)]
pub struct Orphan {
    pub session_id: String,
    /// `None`: the journal knows nothing of it, so another program left it.
    pub journal: Option<(i64, i64)>,
    pub owner: Option<String>,
    pub lease_until: Option<f64>,
}

/// The agent's reply to the handoff's notice, and what is to be sent of it.
#[derive(Debug, Clone)]
pub struct Answer {
    pub notice: String,
    pub reply: String,
    pub deliveries: Vec<NewDelivery>,
}

/// Cuts a reason to what the column takes, between characters.
pub fn cut_error(text: &str) -> String {
    text.chars().take(ERROR_LENGTH).collect()
}

impl Store {
    // The six operations of the contract with Hermes.

    /// Asks for a handoff: allowed when none is in flight.
    pub async fn request_handoff(
        &self,
        session_id: &str,
        platform: &str,
        note: Option<&str>,
        via: Via,
    ) -> Result<Handoff, StoreError> {
        let (session_id, platform, note) = (
            session_id.to_owned(),
            platform.to_owned(),
            note.map(str::to_owned),
        );
        self.write(move |c| {
            let changed = c
                .prepare_cached(
                    "UPDATE sessions SET handoff_state = 'pending', handoff_platform = ?2, handoff_error = NULL
                     WHERE id = ?1 AND (handoff_state IS NULL OR handoff_state IN ('completed', 'failed'))",
                )?
                .execute([&session_id, &platform])?;
            if changed == 0 {
                return Err(StoreError::Conflict(match sessions::by_id(c, &session_id)? {
                    None => format!("there is no session {session_id}"),
                    Some(s) => format!("a handoff of {session_id} is {} already", s.handoff_state.unwrap_or_default()),
                }));
            }
            let id = open_journal(c, &session_id, &platform, note.as_deref(), via)?;
            by_id(c, id)?.ok_or(StoreError::Closed)
        })
        .await
    }

    /// The row's state, platform and error, as other programs see them.
    #[allow(clippy::type_complexity)] // three columns, read once
    pub async fn handoff_state(
        &self,
        session_id: &str,
    ) -> Result<Option<(Option<State>, Option<String>, Option<String>)>, StoreError> {
        let session_id = session_id.to_owned();
        self.read(move |c| {
            let session = sessions::by_id(c, &session_id)?;
            Ok(session.map(|s| {
                (
                    s.handoff_state.as_deref().and_then(State::parse),
                    s.handoff_platform,
                    s.handoff_error,
                )
            }))
        })
        .await
    }

    /// Pending rows (session and platform), the oldest session first.
    pub async fn pending_handoffs(
        &self,
        limit: usize,
        except_platforms: &[String],
    ) -> Result<Vec<(String, String)>, StoreError> {
        let except = serde_json::to_string(except_platforms).unwrap_or_default();
        self.read(move |c| {
            let mut statement = c.prepare_cached(
                "SELECT id, COALESCE(handoff_platform, '') FROM sessions
                 WHERE handoff_state = 'pending' AND COALESCE(handoff_platform, '') NOT IN (SELECT value FROM json_each(?2))
                 ORDER BY started_at LIMIT ?1",
            )?;
            let rows = statement.query_map(params![limit as i64, except], |row| Ok((row.get(0)?, row.get(1)?)))?.collect::<Result<_, _>>()?;
            Ok(rows)
        })
        .await
    }

    /// Takes a pending row. `None`: somebody else was faster, or it was withdrawn.
    pub async fn claim_handoff(
        &self,
        session_id: &str,
        owner: &str,
        lease_until: f64,
    ) -> Result<Option<Claim>, StoreError> {
        let (session_id, owner) = (session_id.to_owned(), owner.to_owned());
        self.write(move |c| {
            let platform: Option<Option<String>> = c
                .prepare_cached(
                    "UPDATE sessions SET handoff_state = 'running' WHERE id = ?1 AND handoff_state = 'pending' RETURNING handoff_platform",
                )?
                .query_row([&session_id], |row| row.get(0))
                .optional()?;
            let Some(platform) = platform else { return Ok(None) };
            let platform = platform.unwrap_or_default();
            let journal = match in_flight(c, &session_id)? {
                Some((id, asked)) if asked == platform => id,
                _ => open_journal(c, &session_id, &platform, None, Via::Foreign)?,
            };
            start(c, journal, &owner, lease_until).map(Some)
        })
        .await
    }

    /// The last step of a handoff that went through.
    pub async fn complete_handoff(&self, claim: &Claim) -> Result<(), StoreError> {
        let (id, fence) = (claim.handoff.id, claim.fence);
        self.write(move |c| {
            advance(c, id, fence, Stage::Settled)?;
            let session: String = c.query_row(
                "UPDATE hermesd_handoffs SET state = 'completed', ended_at = ?2, owner = NULL, lease_until = NULL
                 WHERE id = ?1 RETURNING session_id",
                params![id, clock::now()],
                |row| row.get(0),
            )?;
            c.prepare_cached("UPDATE sessions SET handoff_state = 'completed', handoff_error = NULL WHERE id = ?1 AND handoff_state = 'running'")?
                .execute([session])?;
            Ok(())
        })
        .await
    }

    /// Ends a running handoff with a reason and puts everything back as it was before.
    pub async fn fail_handoff(&self, claim: &Claim, reason: &str) -> Result<(), StoreError> {
        let (id, fence, scope, reason) = (
            claim.handoff.id,
            claim.fence,
            self.scope(),
            cut_error(reason),
        );
        let key = self
            .write(move |c| {
                hold(c, id, fence)?;
                roll_back(c, &scope, id)?;
                let session = close_journal(c, id, &reason)?;
                c.execute(
                    "UPDATE sessions SET handoff_state = 'failed', handoff_error = ?2 WHERE id = ?1 AND handoff_state = 'running'",
                    params![session, reason],
                )?;
                Ok(c.query_row("SELECT session_key FROM hermesd_handoffs WHERE id = ?1", [id], |row| row.get::<_, Option<String>>(0))?)
            })
            .await?;
        if let Some(key) = key {
            self.mirror(&key).await;
        }
        Ok(())
    }

    // Around them.

    /// Ends a pending row that nobody has claimed. False: it is pending no more.
    pub async fn withdraw_handoff(
        &self,
        session_id: &str,
        reason: &str,
    ) -> Result<bool, StoreError> {
        let (session_id, reason) = (session_id.to_owned(), cut_error(reason));
        self.write(move |c| {
            let changed = c.execute(
                "UPDATE sessions SET handoff_state = 'failed', handoff_error = ?2 WHERE id = ?1 AND handoff_state = 'pending'",
                [&session_id, &reason],
            )?;
            if changed == 1 {
                // A row of another program gets a journal entry too, so that `handoffs` can tell what became of it.
                let id = match in_flight(c, &session_id)? {
                    Some((id, _)) => id,
                    None => {
                        let platform = sessions::by_id(c, &session_id)?.and_then(|s| s.handoff_platform).unwrap_or_default();
                        open_journal(c, &session_id, &platform, None, Via::Foreign)?
                    }
                };
                close_journal(c, id, &reason)?;
            }
            Ok(changed == 1)
        })
        .await
    }

    /// Asks the owner of a running handoff to stop it. False: it runs no more, or its reply is in the chat already.
    pub async fn cancel_handoff(&self, id: i64) -> Result<bool, StoreError> {
        self.write(move |c| {
            let changed = c.execute(
                "UPDATE hermesd_handoffs SET cancel_requested = 1
                 WHERE id = ?1 AND state = 'running' AND stage NOT IN ('delivered', 'settled')",
                [id],
            )?;
            Ok(changed == 1)
        })
        .await
    }

    pub async fn record_home(&self, claim: &Claim, home: &Home) -> Result<(), StoreError> {
        let json = serde_json::to_string(home).unwrap_or_default();
        self.record(claim, Stage::Homed, "home", json).await
    }

    pub async fn record_thread(&self, claim: &Claim, opened: &Opened) -> Result<(), StoreError> {
        let json = serde_json::to_string(opened).unwrap_or_default();
        self.record(claim, Stage::Threaded, "thread", json).await
    }

    pub async fn record_sent(
        &self,
        claim: &Claim,
        message_ids: &[String],
    ) -> Result<(), StoreError> {
        let json = serde_json::to_string(message_ids).unwrap_or_default();
        self.record(claim, Stage::Delivered, "sent_ids", json).await
    }

    async fn record(
        &self,
        claim: &Claim,
        stage: Stage,
        column: &'static str,
        evidence: String,
    ) -> Result<(), StoreError> {
        let (id, fence) = (claim.handoff.id, claim.fence);
        self.write(move |c| {
            advance(c, id, fence, stage)?;
            c.prepare_cached(&format!(
                "UPDATE hermesd_handoffs SET {column} = ?2 WHERE id = ?1"
            ))?
            .execute(params![id, evidence])?;
            Ok(())
        })
        .await
    }

    /// Puts the chat on the session and remembers what that displaced.
    pub async fn record_binding(
        &self,
        claim: &Claim,
        key: &str,
        source: &Source,
    ) -> Result<(), StoreError> {
        let mirrored = self.mirrored(key).await.map(|e| e.to_string());
        let (id, fence, scope) = (claim.handoff.id, claim.fence, self.scope());
        let (session_id, bound, source) = (
            claim.handoff.session_id.clone(),
            key.to_owned(),
            source.clone(),
        );
        self.write(move |c| {
            advance(c, id, fence, Stage::Bound)?;
            let displaced =
                routing::bind(c, &scope, &bound, &session_id, &source, mirrored.as_deref())?;
            let displaced = serde_json::to_string(&displaced).unwrap_or_default();
            c.prepare_cached(
                "UPDATE hermesd_handoffs SET session_key = ?2, displaced = ?3 WHERE id = ?1",
            )?
            .execute(params![id, bound, displaced])?;
            Ok(())
        })
        .await?;
        self.mirror(key).await;
        Ok(())
    }

    /// Writes the notice, the reply and the ledger rows of what is to be sent, all at once.
    pub async fn record_answer(&self, claim: &Claim, answer: Answer) -> Result<(), StoreError> {
        let (id, fence, session_id) = (
            claim.handoff.id,
            claim.fence,
            claim.handoff.session_id.clone(),
        );
        self.write(move |c| {
            advance(c, id, fence, Stage::Answered)?;
            let mut rows = Vec::new();
            for message in [NewMessage::text(Role::User, &answer.notice), NewMessage::reply(&answer.reply)] {
                rows.push(messages::append(c, &session_id, &message)?);
            }
            c.prepare_cached("UPDATE sessions SET api_call_count = COALESCE(api_call_count, 0) + 1 WHERE id = ?1")?.execute([&session_id])?;
            for delivery in &answer.deliveries {
                deliveries::insert(c, delivery)?;
            }
            let rows = serde_json::to_string(&rows).unwrap_or_default();
            c.prepare_cached("UPDATE hermesd_handoffs SET reply = ?2, message_rows = ?3 WHERE id = ?1")?
                .execute(params![id, answer.reply, rows])?;
            Ok(())
        })
        .await
    }

    /// Keeps the leases of one owner alive.
    pub async fn renew_leases(&self, owner: &str, until: f64) -> Result<(), StoreError> {
        let owner = owner.to_owned();
        self.write(move |c| {
            c.execute("UPDATE hermesd_handoffs SET lease_until = ?2 WHERE state = 'running' AND owner = ?1", params![owner, until])?;
            Ok(())
        })
        .await
    }

    /// Lets go of a claim without ending the handoff: the next owner resumes it.
    pub async fn release_handoff(&self, claim: &Claim) -> Result<(), StoreError> {
        let (id, fence) = (claim.handoff.id, claim.fence);
        self.write(move |c| {
            c.execute(
                "UPDATE hermesd_handoffs SET owner = NULL, lease_until = NULL WHERE id = ?1 AND fence = ?2 AND state = 'running'",
                params![id, fence],
            )?;
            Ok(())
        })
        .await
    }

    /// Rows that run without being ours.
    pub async fn running_elsewhere(&self, owner: &str) -> Result<Vec<Orphan>, StoreError> {
        let owner = owner.to_owned();
        self.read(move |c| {
            let mut statement = c.prepare_cached(
                "SELECT s.id, h.id, h.fence, h.owner, h.lease_until FROM sessions s
                 LEFT JOIN hermesd_handoffs h ON h.session_id = s.id AND h.state = 'running'
                 WHERE s.handoff_state = 'running' AND (h.owner IS NULL OR h.owner <> ?1)",
            )?;
            let rows = statement.query_map([owner], |row| {
                let journal = row.get::<_, Option<i64>>(1)?.zip(row.get(2)?);
                Ok(Orphan {
                    session_id: row.get(0)?,
                    journal,
                    owner: row.get(3)?,
                    lease_until: row.get(4)?,
                })
            })?;
            Ok(rows.collect::<Result<_, _>>()?)
        })
        .await
    }

    /// Takes over a running row, if it still stands as it was seen.
    pub async fn take_over(
        &self,
        orphan: &Orphan,
        owner: &str,
        lease_until: f64,
    ) -> Result<Option<Claim>, StoreError> {
        let (orphan, owner) = (orphan.clone(), owner.to_owned());
        self.write(move |c| {
            let session = sessions::by_id(c, &orphan.session_id)?;
            let Some(session) = session.filter(|s| s.handoff_state.as_deref() == Some("running")) else { return Ok(None) };
            let id = match orphan.journal {
                Some((id, fence)) => {
                    let same = c.query_row(
                        "SELECT EXISTS (SELECT 1 FROM hermesd_handoffs WHERE id = ?1 AND fence = ?2 AND state = 'running')",
                        [id, fence],
                        |row| row.get::<_, bool>(0),
                    )?;
                    if !same {
                        return Ok(None);
                    }
                    id
                }
                None if in_flight(c, &orphan.session_id)?.is_some_and(|(_, platform)| Some(platform) == session.handoff_platform) => return Ok(None),
                None => open_journal(c, &session.id, &session.handoff_platform.unwrap_or_default(), None, Via::Foreign)?,
            };
            start(c, id, &owner, lease_until).map(Some)
        })
        .await
    }

    /// Closes journal rows that another program has overtaken: their session's row no longer says what they say.
    /// What they had bound is put back.
    pub async fn close_overtaken(&self) -> Result<Vec<Handoff>, StoreError> {
        if self.read(overtaken).await?.is_empty() {
            return Ok(Vec::new());
        }
        let scope = self.scope();
        let closed = self
            .write(move |c| {
                let mut closed = Vec::new();
                for (id, error) in overtaken(c)? {
                    roll_back(c, &scope, id)?;
                    let reason = if error.is_empty() {
                        "withdrawn by another program".to_owned()
                    } else {
                        format!("withdrawn by another program: {error}")
                    };
                    close_journal(c, id, &reason)?;
                    closed.extend(by_id(c, id)?);
                }
                Ok(closed)
            })
            .await?;
        for key in closed.iter().filter_map(|h| h.session_key.as_deref()) {
            self.mirror(key).await;
        }
        Ok(closed)
    }

    /// A terminal that exits after its session went to a chat ends the row that the chat now owns; this reopens it.
    pub async fn reopen_handed_off(&self, since: f64) -> Result<Vec<String>, StoreError> {
        let wanted = move |c: &Connection| -> Result<Vec<String>, StoreError> {
            let mut statement = c.prepare_cached(
                "SELECT s.id FROM hermesd_handoffs h JOIN sessions s ON s.id = h.session_id AND s.session_key = h.session_key
                 WHERE h.state = 'completed' AND h.ended_at >= ?1 AND s.ended_at >= h.requested_at
                   AND s.end_reason IN ('cli_close', 'agent_close', 'tui_close')",
            )?;
            let ids = statement
                .query_map([since], |row| row.get(0))?
                .collect::<Result<_, _>>()?;
            Ok(ids)
        };
        let ids = self.read(wanted).await?;
        if ids.is_empty() {
            return Ok(ids);
        }
        self.write(move |c| {
            for id in &ids {
                c.execute(
                    "UPDATE sessions SET ended_at = NULL, end_reason = NULL WHERE id = ?1",
                    [id],
                )?;
            }
            Ok(ids.clone())
        })
        .await
    }

    pub async fn handoff(&self, id: i64) -> Result<Option<Handoff>, StoreError> {
        self.read(move |c| by_id(c, id)).await
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
            let mut statement = c.prepare_cached(
                "SELECT id FROM hermesd_handoffs
                 WHERE (?1 IS NULL OR session_id = ?1) AND (?2 = 0 OR state IN ('pending', 'running')) ORDER BY id DESC LIMIT ?3",
            )?;
            let ids: Vec<i64> =
                statement.query_map(params![session_id, in_flight, limit as i64], |row| row.get(0))?.collect::<Result<_, _>>()?;
            ids.into_iter().filter_map(|id| by_id(c, id).transpose()).collect()
        })
        .await
    }
}

/// Journal rows in flight whose session's row says otherwise, with what it says.
fn overtaken(c: &Connection) -> Result<Vec<(i64, String)>, StoreError> {
    let mut statement = c.prepare_cached(
        "SELECT h.id, COALESCE(s.handoff_error, '') FROM hermesd_handoffs h LEFT JOIN sessions s ON s.id = h.session_id
         WHERE h.state IN ('pending', 'running') AND COALESCE(s.handoff_state, '') NOT IN ('pending', 'running')",
    )?;
    let rows = statement
        .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect::<Result<_, _>>()?;
    Ok(rows)
}

/// The journal row of the handoff that this session has in flight, with its platform.
fn in_flight(c: &Connection, session_id: &str) -> Result<Option<(i64, String)>, StoreError> {
    let mut statement = c.prepare_cached("SELECT id, platform FROM hermesd_handoffs WHERE session_id = ?1 AND state IN ('pending', 'running')")?;
    Ok(statement
        .query_row([session_id], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?)
}

/// A new journal row; one that another program has overtaken is closed first.
fn open_journal(
    c: &Connection,
    session_id: &str,
    platform: &str,
    note: Option<&str>,
    via: Via,
) -> Result<i64, StoreError> {
    if let Some((id, _)) = in_flight(c, session_id)? {
        close_journal(c, id, "overtaken by a newer request")?;
    }
    let mut insert = c.prepare_cached(
        "INSERT INTO hermesd_handoffs (session_id, platform, note, via, state, requested_at) VALUES (?1, ?2, ?3, ?4, 'pending', ?5)",
    )?;
    Ok(insert.insert(params![
        session_id,
        platform,
        note,
        via.as_str(),
        clock::now()
    ])?)
}

fn close_journal(c: &Connection, id: i64, reason: &str) -> Result<String, StoreError> {
    Ok(c.query_row(
        "UPDATE hermesd_handoffs SET state = 'failed', error = ?2, ended_at = ?3, owner = NULL, lease_until = NULL
         WHERE id = ?1 RETURNING session_id",
        params![id, reason, clock::now()],
        |row| row.get(0),
    )?)
}

/// Makes the row ours: the first time its stage becomes `claimed`, later it stays where it was.
fn start(c: &Connection, id: i64, owner: &str, lease_until: f64) -> Result<Claim, StoreError> {
    let fence = c
        .prepare_cached(
            "UPDATE hermesd_handoffs SET state = 'running', stage = COALESCE(stage, 'claimed'), owner = ?2, lease_until = ?3,
                    fence = fence + 1 WHERE id = ?1 RETURNING fence",
        )?
        .query_row(params![id, owner, lease_until], |row| row.get(0))?;
    c.prepare_cached(
        "INSERT OR IGNORE INTO hermesd_stages (handoff_id, stage, at) VALUES (?1, 'claimed', ?2)",
    )?
    .execute(params![id, clock::now()])?;
    let handoff = by_id(c, id)?.ok_or(StoreError::Closed)?;
    Ok(Claim { handoff, fence })
}

/// Checks that the claim still holds and that the session's row still says `running`.
fn hold(c: &Connection, id: i64, fence: i64) -> Result<Option<Stage>, StoreError> {
    let row: Option<(Option<String>, Option<String>)> = c
        .prepare_cached(
            "SELECT h.stage, s.handoff_state FROM hermesd_handoffs h JOIN sessions s ON s.id = h.session_id
             WHERE h.id = ?1 AND h.fence = ?2 AND h.state = 'running'",
        )?
        .query_row([id, fence], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    match row {
        None => Err(StoreError::Conflict(format!(
            "handoff {id} has another owner"
        ))),
        Some((_, state)) if state.as_deref() != Some("running") => Err(StoreError::Conflict(
            format!("handoff {id} was withdrawn by another program"),
        )),
        Some((stage, _)) => Ok(stage.as_deref().and_then(Stage::parse)),
    }
}

/// The one way from a stage to the next.
fn advance(c: &Connection, id: i64, fence: i64, to: Stage) -> Result<(), StoreError> {
    let at = hold(c, id, fence)?;
    if at != to.previous() {
        let at = at.map_or("none", Stage::as_str);
        return Err(StoreError::Conflict(format!(
            "handoff {id} cannot go from stage {at} to {}",
            to.as_str()
        )));
    }
    c.prepare_cached("UPDATE hermesd_handoffs SET stage = ?2 WHERE id = ?1")?
        .execute(params![id, to.as_str()])?;
    c.prepare_cached(
        "INSERT OR REPLACE INTO hermesd_stages (handoff_id, stage, at) VALUES (?1, ?2, ?3)",
    )?
    .execute(params![id, to.as_str(), clock::now()])?;
    Ok(())
}

/// Puts the binding back, takes the notice and the reply out of the transcript, and stops what was still to be sent.
fn roll_back(c: &Connection, scope: &str, id: i64) -> Result<(), StoreError> {
    let (session, key, displaced, rows): (String, Option<String>, Option<String>, Option<String>) = c.query_row(
        "SELECT session_id, session_key, displaced, message_rows FROM hermesd_handoffs WHERE id = ?1",
        [id],
        |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?)),
    )?;
    let displaced = displaced.and_then(|text| serde_json::from_str::<Displaced>(&text).ok());
    if let Some((key, displaced)) = key.zip(displaced) {
        routing::unbind(c, scope, &key, &session, &displaced)?;
    }
    let rows: Vec<i64> = rows
        .and_then(|text| serde_json::from_str(&text).ok())
        .unwrap_or_default();
    messages::retract(c, &session, &rows)?;
    deliveries::abandon(c, id)
}

fn by_id(c: &Connection, id: i64) -> Result<Option<Handoff>, StoreError> {
    let mut statement = c.prepare_cached(
        "SELECT id, session_id, platform, note, via, state, stage, error, requested_at, ended_at, cancel_requested, home, thread,
                session_key, reply, sent_ids FROM hermesd_handoffs WHERE id = ?1",
    )?;
    let Some(mut handoff) = statement.query_row([id], handoff).optional()? else {
        return Ok(None);
    };
    let mut statement =
        c.prepare_cached("SELECT stage, at FROM hermesd_stages WHERE handoff_id = ?1")?;
    let stages = statement.query_map([id], |row| Ok((row.get::<_, String>(0)?, row.get(1)?)))?;
    for row in stages {
        let (name, at) = row?;
        handoff
            .stages
            .extend(Stage::parse(&name).map(|stage| (stage, at)));
    }
    handoff.stages.sort_by_key(|(stage, _)| *stage);
    Ok(Some(handoff))
}

fn handoff(row: &Row<'_>) -> rusqlite::Result<Handoff> {
    let text = |at: usize| row.get::<_, Option<String>>(at);
    Ok(Handoff {
        id: row.get(0)?,
        session_id: row.get(1)?,
        platform: row.get(2)?,
        note: row.get(3)?,
        via: text(4)?
            .as_deref()
            .and_then(Via::parse)
            .unwrap_or(Via::Foreign),
        state: text(5)?
            .as_deref()
            .and_then(State::parse)
            .unwrap_or(State::Failed),
        stage: text(6)?.as_deref().and_then(Stage::parse),
        error: row.get(7)?,
        requested_at: row.get(8)?,
        ended_at: row.get(9)?,
        cancel_requested: row.get(10)?,
        home: text(11)?.and_then(|json| serde_json::from_str(&json).ok()),
        thread: text(12)?.and_then(|json| serde_json::from_str(&json).ok()),
        session_key: row.get(13)?,
        reply: row.get(14)?,
        sent_ids: text(15)?
            .and_then(|json| serde_json::from_str(&json).ok())
            .unwrap_or_default(),
        stages: Vec::new(),
    })
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
