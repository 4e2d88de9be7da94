//! The journal of handoffs: the record of each stage, for resuming and undoing a handoff.
//!
//! These functions work in an open transaction. The operations for other rooms are in `handoffs` and `handoff_leases`.

use std::collections::BTreeMap;

use rusqlite::{Connection, OptionalExtension, Row, ToSql, params};

use crate::clock;
use crate::domain::HomeChannel;
use crate::domain::Session;
use crate::domain::{Handoff, HandoffStage, HandoffState, RequestedVia};
use crate::store::binding::Displaced;
use crate::store::handoffs::with_notice_stays;
use crate::store::retract::{self, Said};
use crate::store::session_names::with_first_words;
use crate::store::{Claim, Store, StoreError, deliveries, earlier, lenient, sessions};

/// The bindings that a transaction changes. They are mirrored to `sessions.json` after the commit.
pub(super) struct Changed<'a> {
    pub(super) scope: &'a str,
    /// The profile for rows that the transaction creates.
    pub(super) profile: &'a str,
    pub(super) keys: Vec<String>,
}

impl Store {
    /// A write that may change bindings. The changed ones are mirrored after the commit.
    pub(super) async fn change<T, F>(&self, work: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: Fn(&Connection, &mut Changed<'_>) -> Result<T, StoreError> + Send + 'static,
    {
        let changed = self
            .write(within(self.scope(), self.profile(), work))
            .await?;
        self.mirror_changed(changed).await
    }

    /// Like [`Store::change`], for steps that a restart repeats.
    pub(super) async fn change_unflushed<T, F>(&self, work: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: Fn(&Connection, &mut Changed<'_>) -> Result<T, StoreError> + Send + 'static,
    {
        let changed = self
            .write_unflushed(within(self.scope(), self.profile(), work))
            .await?;
        self.mirror_changed(changed).await
    }

    async fn mirror_changed<T>(&self, (value, keys): (T, Vec<String>)) -> Result<T, StoreError> {
        for key in keys {
            self.mirror(&key).await;
        }
        Ok(value)
    }
}

/// Wraps the work of a transaction, so that it also returns the keys of changed bindings.
fn within<T>(
    scope: String,
    profile: String,
    work: impl Fn(&Connection, &mut Changed<'_>) -> Result<T, StoreError>,
) -> impl Fn(&Connection) -> Result<(T, Vec<String>), StoreError> {
    move |c| {
        let mut changed = Changed {
            scope: &scope,
            profile: &profile,
            keys: Vec::new(),
        };
        let value = work(c, &mut changed)?;
        Ok((value, changed.keys))
    }
}

/// JournalMode rows in flight whose session has another handoff state, with the session's error.
pub(super) fn overtaken(c: &Connection) -> Result<Vec<(i64, String)>, StoreError> {
    let mut statement = c.prepare_cached(
        "SELECT h.id, (SELECT handoff_error FROM sessions WHERE id = h.session_id)
         FROM hermesd_handoffs h INDEXED BY hermesd_handoffs_in_flight
         WHERE h.state IN ('pending', 'running')
           AND NOT EXISTS (SELECT 1 FROM sessions WHERE id = h.session_id
                           AND (handoff_state = 'running' OR (handoff_state = 'pending' AND h.state = 'pending')))",
    )?;
    let rows = statement
        .query_map([], |row| {
            Ok((row.get(0)?, lenient::text(row, 1)?.unwrap_or_default()))
        })?
        .collect::<Result<_, _>>()?;
    Ok(rows)
}

/// The journal row of the handoff that a session has in flight.
pub(super) struct InFlight {
    pub(super) id: i64,
    pub(super) platform: String,
    /// The handoff is claimed.
    pub(super) running: bool,
}

pub(super) fn in_flight(c: &Connection, session_id: &str) -> Result<Option<InFlight>, StoreError> {
    let mut statement = c.prepare_cached(
        "SELECT id, platform, state = 'running' FROM hermesd_handoffs
         WHERE session_id = ?1 AND state IN ('pending', 'running')",
    )?;
    let row = statement.query_row([session_id], |row| {
        Ok(InFlight {
            id: row.get(0)?,
            platform: row.get(1)?,
            running: row.get(2)?,
        })
    });
    Ok(row.optional()?)
}

/// The pending journal row of this session and platform, else a new one. Any other row in flight is closed.
pub(super) fn adopt(
    c: &Connection,
    changed: &mut Changed<'_>,
    session_id: &str,
    platform: &str,
) -> Result<i64, StoreError> {
    match in_flight(c, session_id)? {
        Some(row) if !row.running && row.platform == platform => Ok(row.id),
        _ => open(
            c,
            changed,
            session_id,
            platform,
            None,
            RequestedVia::Foreign,
        ),
    }
}

pub(super) fn open(
    c: &Connection,
    changed: &mut Changed<'_>,
    session_id: &str,
    platform: &str,
    note: Option<&str>,
    via: RequestedVia,
) -> Result<i64, StoreError> {
    if let Some(row) = in_flight(c, session_id)? {
        close(c, changed, row.id, "overtaken by a newer request")?;
    }
    let mut insert = c.prepare_cached(
        "INSERT INTO hermesd_handoffs (session_id, platform, note, via, state, requested_at)
         VALUES (?1, ?2, ?3, ?4, 'pending', ?5)",
    )?;
    Ok(insert.insert(params![
        session_id,
        platform,
        note,
        via.as_str(),
        clock::now()
    ])?)
}

/// Fails a handoff and undoes its changes. Returns its session, and the reason as it is recorded.
pub(super) fn close(
    c: &Connection,
    changed: &mut Changed<'_>,
    id: i64,
    reason: &str,
) -> Result<(String, String), StoreError> {
    let reason = match roll_back(c, changed, id)? {
        true => reason.to_owned(),
        false => with_notice_stays(reason),
    };
    let session = c.query_row(
        "UPDATE hermesd_handoffs SET state = 'failed', error = ?2, ended_at = ?3, owner = NULL, lease_until = NULL
         WHERE id = ?1 RETURNING session_id",
        params![id, reason, clock::now()],
        |row| row.get(0),
    )?;
    Ok((session, reason))
}

/// Claims the row for `owner`. A new handoff reaches `claimed`, and also `homed` if the platform has a home. A resumed
/// one keeps its stage.
pub(super) fn start(
    c: &Connection,
    session: &Session,
    id: i64,
    owner: &str,
    lease_until: f64,
    home_of: impl Fn(&str) -> Option<HomeChannel>,
) -> Result<Claim, StoreError> {
    let mut handoff = by_id(c, id)?.ok_or(StoreError::Closed)?;
    let now = clock::now();
    handoff.state = HandoffState::Running;
    if handoff.stage.is_none() {
        handoff.reach(HandoffStage::Claimed, now);
    }
    if handoff.stage == Some(HandoffStage::Claimed) {
        handoff.home = home_of(&handoff.platform);
        if handoff.home.is_some() {
            handoff.reach(HandoffStage::Homed, now);
        }
    }
    let mut update = c.prepare_cached(
        "UPDATE hermesd_handoffs SET state = 'running', stage = ?2, stages = ?3, home = ?4, owner = ?5, lease_until = ?6,
                fence = fence + 1 WHERE id = ?1",
    )?;
    let home = handoff.home.as_ref();
    let home = home.and_then(|home| serde_json::to_string(home).ok());
    update.execute(params![
        id,
        handoff.stage.map(HandoffStage::as_str),
        times(&handoff.stages),
        home,
        owner,
        lease_until
    ])?;
    let fence = c
        .prepare_cached("SELECT fence FROM hermesd_handoffs WHERE id = ?1")?
        .query_row([id], |row| row.get(0))?;
    Ok(Claim {
        handoff,
        session_name: with_first_words(c, session.clone())?.name(),
        notice_stays: false,
        deliveries: Vec::new(),
        sent: None,
        fence,
    })
}

/// The times of the stages, as the journal stores them.
fn times(stages: &[(HandoffStage, f64)]) -> String {
    let times: BTreeMap<&str, f64> = stages.iter().map(|(s, at)| (s.as_str(), *at)).collect();
    serde_json::to_string(&times).unwrap_or_default()
}

fn parse_times(text: &str) -> Vec<(HandoffStage, f64)> {
    let times: BTreeMap<&str, f64> = serde_json::from_str(text).unwrap_or_default();
    let mut stages: Vec<(HandoffStage, f64)> = times
        .into_iter()
        .filter_map(|(name, at)| Some((HandoffStage::parse(name)?, at)))
        .collect();
    stages.sort_by_key(|(stage, _)| *stage);
    stages
}

/// The state of a claim that still holds.
struct Held {
    stage: Option<HandoffStage>,
    stages: Vec<(HandoffStage, f64)>,
    cancel_requested: bool,
}

/// Checks that the claim still holds and that the session's row is still `running`.
pub(super) fn hold(c: &Connection, id: i64, fence: i64) -> Result<(), StoreError> {
    held(c, id, fence).map(|_| ())
}

fn held(c: &Connection, id: i64, fence: i64) -> Result<Held, StoreError> {
    let row = c
        .prepare_cached(
            "SELECT stage, stages, cancel_requested, (SELECT handoff_state FROM sessions WHERE id = hermesd_handoffs.session_id)
             FROM hermesd_handoffs WHERE id = ?1 AND fence = ?2 AND state = 'running'",
        )?
        .query_row([id, fence], |row| {
            let text = |at: usize| row.get::<_, Option<String>>(at);
            let held = Held {
                stage: text(0)?.as_deref().and_then(HandoffStage::parse),
                stages: text(1)?.as_deref().map(parse_times).unwrap_or_default(),
                cancel_requested: row.get(2)?,
            };
            Ok((held, lenient::text(row, 3)?))
        })
        .optional()?;
    match row {
        None => Err(StoreError::Conflict(format!(
            "handoff {id} has another owner"
        ))),
        Some((_, state)) if state.as_deref() != Some("running") => Err(StoreError::Conflict(
            format!("handoff {id} was withdrawn by another program"),
        )),
        Some((held, _)) => Ok(held),
    }
}

/// The evidence of a stage: columns of the journal and their values.
pub(super) type Evidence<'a> = &'a [(&'static str, &'a dyn ToSql)];

/// Whether another handoff in flight uses the chat behind this key.
pub(super) fn is_taken(c: &Connection, id: i64, key: &str) -> Result<bool, StoreError> {
    let mut statement = c.prepare_cached(
        "SELECT 1 FROM hermesd_handoffs INDEXED BY hermesd_handoffs_in_flight
         WHERE state IN ('pending', 'running') AND session_key = ?2 AND id <> ?1",
    )?;
    Ok(statement.exists(params![id, key])?)
}

/// Moves a handoff to its next stages. There is no other way. A cancellation counts until `delivered` is committed.
pub(super) fn advance(
    c: &Connection,
    id: i64,
    fence: i64,
    through: &[HandoffStage],
    at: f64,
    evidence: Evidence<'_>,
) -> Result<(), StoreError> {
    let mut held = held(c, id, fence)?;
    for to in through {
        if held.stage != to.previous() {
            let from = held.stage.map_or("none", HandoffStage::as_str);
            let to = to.as_str();
            return Err(StoreError::Conflict(format!(
                "handoff {id} cannot go from stage {from} to {to}"
            )));
        }
        if held.cancel_requested && held.stage < Some(HandoffStage::Delivered) {
            return Err(StoreError::Cancelled);
        }
        held.stage = Some(*to);
        held.stages.push((*to, at));
    }
    let columns: String = evidence
        .iter()
        .enumerate()
        .map(|(i, (column, _))| format!(", {column} = ?{}", i + 4))
        .collect();
    let (stage, stages) = (held.stage.map(HandoffStage::as_str), times(&held.stages));
    let mut values: Vec<&dyn ToSql> = vec![&id, &stage, &stages];
    values.extend(evidence.iter().map(|(_, value)| *value));
    c.prepare_cached(&format!(
        "UPDATE hermesd_handoffs SET stage = ?2, stages = ?3{columns} WHERE id = ?1"
    ))?
    .execute(&values[..])?;
    Ok(())
}

/// The key of the session's former chat, if this handoff bound it to another one.
pub(super) fn left_behind(c: &Connection, id: i64) -> Result<Option<String>, StoreError> {
    let mut statement =
        c.prepare_cached("SELECT displaced, session_key FROM hermesd_handoffs WHERE id = ?1")?;
    let (displaced, key) = statement.query_row([id], |row| {
        Ok((
            row.get::<_, Option<String>>(0)?,
            row.get::<_, Option<String>>(1)?,
        ))
    })?;
    let displaced = displaced.and_then(|text| serde_json::from_str::<Displaced>(&text).ok());
    let before = displaced.and_then(|d| d.key_before());
    Ok(before.filter(|before| Some(before) != key.as_ref()))
}

/// Undoes the binding, retracts the notice and the reply, and abandons open deliveries. False if the notice stays,
/// because it is part of a summary.
fn roll_back(c: &Connection, changed: &mut Changed<'_>, id: i64) -> Result<bool, StoreError> {
    let (session, key, displaced, said): (String, Option<String>, Option<String>, Option<String>) = c.query_row(
        "SELECT session_id, session_key, displaced, message_rows FROM hermesd_handoffs WHERE id = ?1",
        [id],
        |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?)),
    )?;
    // Compression may have split the conversation since.
    let session = sessions::tip(c, &session)?;
    let displaced = displaced.and_then(|text| serde_json::from_str::<Displaced>(&text).ok());
    if let Some((key, displaced)) = key.zip(displaced) {
        earlier::unbind(c, changed.scope, &key, &session, &displaced)?;
        changed.keys.push(key);
    }
    let said = said.as_deref().and_then(Said::parse);
    let retracted = match &said {
        Some(said) => retract::retract(c, &session, said)?,
        None => true,
    };
    deliveries::abandon(c, id)?;
    Ok(retracted)
}

pub(super) fn by_id(c: &Connection, id: i64) -> Result<Option<Handoff>, StoreError> {
    let mut statement = c.prepare_cached(
        "SELECT id, session_id, platform, note, via, state, stage, error, requested_at, ended_at, cancel_requested, home, thread,
                session_key, reply, sent_ids, stages, after_turn FROM hermesd_handoffs WHERE id = ?1",
    )?;
    Ok(statement.query_row([id], handoff).optional()?)
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
            .and_then(RequestedVia::parse)
            .unwrap_or(RequestedVia::Foreign),
        state: text(5)?
            .as_deref()
            .and_then(HandoffState::parse)
            .unwrap_or(HandoffState::Failed),
        stage: text(6)?.as_deref().and_then(HandoffStage::parse),
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
        stages: text(16)?.as_deref().map(parse_times).unwrap_or_default(),
        after_turn: row.get(17)?,
    })
}
