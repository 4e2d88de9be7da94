//! The ledger of messages to chats. Each has a row before, during and after its send.

use std::collections::HashSet;
use std::path::PathBuf;

use rusqlite::{Connection, Row, params};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Store, StoreError};
use crate::clock;
use crate::domain::Button;
use crate::domain::{ChatType, Source};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeliveryState {
    /// Not sent yet.
    Pending,
    /// Passed to the platform. The outcome is not known yet.
    Sending,
    Sent,
    Failed,
    /// Not needed any more, because its handoff was rolled back.
    Abandoned,
}

impl DeliveryState {
    const ALL: [DeliveryState; 5] = [
        DeliveryState::Pending,
        DeliveryState::Sending,
        DeliveryState::Sent,
        DeliveryState::Failed,
        DeliveryState::Abandoned,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            DeliveryState::Pending => "pending",
            DeliveryState::Sending => "sending",
            DeliveryState::Sent => "sent",
            DeliveryState::Failed => "failed",
            DeliveryState::Abandoned => "abandoned",
        }
    }

    fn parse(text: &str) -> Option<DeliveryState> {
        Self::ALL.into_iter().find(|s| s.as_str() == text)
    }
}

/// Deliveries that are pending or being sent.
const OPEN: &str = "state IN ('pending', 'sending')";

/// Parts of a message besides its text.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct DeliveryExtra {
    /// The copy of a file. Earlier versions stored the path of the original under `file`, which is ignored now.
    #[serde(rename = "copy", skip_serializing_if = "Option::is_none")]
    pub file: Option<PathBuf>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub buttons: Vec<Button>,
    /// The message in the chat that this one replaces: the preview of a streamed reply.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replaces: Option<String>,
    /// A part of it may be in the chat already, in a message whose id is unknown.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub maybe_shown: bool,
    /// The send of that message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub draft: Option<DraftSend>,
}

/// A preview that was being sent when its daemon died. For a while, the platform gives its id for the same key.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DraftSend {
    pub send_key: String,
    /// When it began, in seconds since 1970.
    pub at: f64,
}

#[derive(Debug, Clone)]
pub struct NewDelivery {
    /// Identifies this send for ever. A platform that deduplicates returns the id of the first message for it.
    pub send_key: String,
    pub source: Source,
    pub session_id: String,
    pub handoff_id: Option<i64>,
    pub text: String,
    pub extra: DeliveryExtra,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Delivery {
    pub id: i64,
    pub send_key: String,
    pub source: Source,
    pub session_id: String,
    pub text: String,
    pub extra: DeliveryExtra,
    pub state: DeliveryState,
    /// When it was first passed to the platform, if the outcome is not known.
    pub started_at: Option<f64>,
    pub message_id: Option<String>,
}

impl Store {
    /// The open deliveries of a handoff, in order.
    pub async fn deliveries_of(&self, handoff_id: i64) -> Result<Vec<Delivery>, StoreError> {
        self.read(move |c| select(c, &format!("handoff_id = ?1 AND {OPEN}"), [handoff_id]))
            .await
    }

    /// The open deliveries that belong to no handoff. A handoff resumes its own.
    pub async fn open_deliveries(&self) -> Result<Vec<Delivery>, StoreError> {
        self.read(|c| select(c, &format!("{OPEN} AND handoff_id IS NULL"), []))
            .await
    }

    /// The files of all open deliveries.
    pub async fn files_to_send(&self) -> Result<HashSet<PathBuf>, StoreError> {
        let open = self.read(|c| select(c, &format!("{OPEN} AND extra IS NOT NULL"), []));
        let open = open.await?.into_iter();
        Ok(open.filter_map(|delivery| delivery.extra.file).collect())
    }

    /// Whether the delivery is still open.
    pub fn delivery_wanted(&self, id: i64) -> Result<bool, StoreError> {
        self.look(|c| {
            let mut statement = c.prepare_cached(&format!(
                "SELECT 1 FROM hermesd_deliveries WHERE id = ?1 AND {OPEN}"
            ))?;
            Ok(statement.exists([id])?)
        })
    }

    /// Marks a delivery as being sent. False if it is no longer open. The time of the first attempt stays.
    pub async fn delivery_started(&self, id: i64) -> Result<bool, StoreError> {
        self.write(move |c| {
            let mut update = c.prepare_cached(&format!(
                "UPDATE hermesd_deliveries SET state = 'sending', attempts = attempts + 1,
                        updated_at = CASE state WHEN 'sending' THEN updated_at ELSE ?2 END
                 WHERE id = ?1 AND {OPEN}"
            ))?;
            Ok(update.execute(params![id, clock::now()])? == 1)
        })
        .await
    }

    /// Marks a delivery as pending again, because it was not passed to the platform.
    pub async fn delivery_put_back(&self, id: i64) -> Result<(), StoreError> {
        self.write_unflushed(move |c| {
            c.prepare_cached("UPDATE hermesd_deliveries SET state = 'pending' WHERE id = ?1 AND state = 'sending'")?
                .execute([id])?;
            Ok(())
        })
        .await
    }

    pub async fn delivery_ended(
        &self,
        id: i64,
        outcome: Result<String, String>,
    ) -> Result<(), StoreError> {
        self.write_unflushed(move |c| end(c, id, outcome.as_ref()))
            .await
    }
}

impl Store {
    /// Fails a delivery and stores a note in its place. `None` if it had ended before.
    pub async fn delivery_failed(
        &self,
        id: i64,
        reason: &str,
        note: NewDelivery,
    ) -> Result<Option<Delivery>, StoreError> {
        let reason = reason.to_owned();
        self.write(move |c| {
            let open = c
                .prepare_cached(&format!(
                    "SELECT 1 FROM hermesd_deliveries WHERE id = ?1 AND {OPEN}"
                ))?
                .exists([id])?;
            if !open {
                return Ok(None);
            }
            end(c, id, Err(&reason))?;
            insert(c, &note).map(Some)
        })
        .await
    }
}

/// Ends an open row. A row that has ended stays as it is.
pub(super) fn end(
    c: &Connection,
    id: i64,
    outcome: Result<&String, &String>,
) -> Result<(), StoreError> {
    let (state, message_id, error) = match outcome {
        Ok(message_id) => (DeliveryState::Sent, Some(message_id), None),
        Err(error) => (DeliveryState::Failed, None, Some(error)),
    };
    let mut update = c.prepare_cached(&format!(
        "UPDATE hermesd_deliveries SET state = ?2, message_id = ?3, error = ?4, updated_at = ?5 WHERE id = ?1 AND {OPEN}"
    ))?;
    update.execute(params![id, state.as_str(), message_id, error, clock::now()])?;
    Ok(())
}

pub(super) fn insert(c: &Connection, new: &NewDelivery) -> Result<Delivery, StoreError> {
    let mut insert = c.prepare_cached(
        "INSERT INTO hermesd_deliveries (platform, source, session_id, handoff_id, send_key, text, extra, state, updated_at)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, 'pending', ?8)",
    )?;
    let extra = Some(&new.extra).filter(|extra| **extra != DeliveryExtra::default());
    let extra = extra.and_then(|extra| serde_json::to_string(extra).ok());
    let id = insert.insert(params![
        new.source.platform,
        new.source.to_origin().to_string(),
        new.session_id,
        new.handoff_id,
        new.send_key,
        new.text,
        extra,
        clock::now()
    ])?;
    Ok(Delivery {
        id,
        send_key: new.send_key.clone(),
        source: new.source.clone(),
        session_id: new.session_id.clone(),
        text: new.text.clone(),
        extra: new.extra.clone(),
        state: DeliveryState::Pending,
        started_at: None,
        message_id: None,
    })
}

/// `None` if the ledger has this send key already.
pub(super) fn insert_once(
    c: &Connection,
    new: &NewDelivery,
) -> Result<Option<Delivery>, StoreError> {
    let mut known = c.prepare_cached("SELECT 1 FROM hermesd_deliveries WHERE send_key = ?1")?;
    if known.exists([&new.send_key])? {
        return Ok(None);
    }
    insert(c, new).map(Some)
}

pub(super) fn insert_all(c: &Connection, new: &[NewDelivery]) -> Result<Vec<Delivery>, StoreError> {
    new.iter().map(|new| insert(c, new)).collect()
}

/// Updates an open row, so that it is sent with these values.
pub(super) fn redirect(c: &Connection, delivery: &Delivery) -> Result<(), StoreError> {
    c.execute(
        &format!("UPDATE hermesd_deliveries SET source = ?2, text = ?3, extra = ?4, state = 'pending', updated_at = ?5 WHERE id = ?1 AND {OPEN}"),
        params![
            delivery.id,
            delivery.source.to_origin().to_string(),
            delivery.text,
            serde_json::to_string(&delivery.extra).ok(),
            clock::now()
        ],
    )?;
    Ok(())
}

pub(super) fn abandon(c: &Connection, handoff_id: i64) -> Result<(), StoreError> {
    c.execute(
        &format!("UPDATE hermesd_deliveries SET state = 'abandoned', updated_at = ?2 WHERE handoff_id = ?1 AND {OPEN}"),
        params![handoff_id, clock::now()],
    )?;
    Ok(())
}

fn select(
    c: &Connection,
    condition: &str,
    params: impl rusqlite::Params,
) -> Result<Vec<Delivery>, StoreError> {
    let mut statement = c.prepare_cached(&format!(
        "SELECT id, send_key, source, session_id, text, state, message_id, platform, extra, updated_at FROM hermesd_deliveries INDEXED BY hermesd_deliveries_open
         WHERE {condition} ORDER BY id"
    ))?;
    let rows = statement
        .query_map(params, delivery)?
        .collect::<Result<_, _>>()?;
    Ok(rows)
}

fn delivery(row: &Row<'_>) -> rusqlite::Result<Delivery> {
    let source: String = row.get(2)?;
    let platform: String = row.get(7)?;
    let extra: Option<String> = row.get(8)?;
    let extra = extra.and_then(|extra| serde_json::from_str(&extra).ok());
    let source = serde_json::from_str::<Value>(&source)
        .ok()
        .and_then(|origin| Source::from_origin(&origin));
    let state = DeliveryState::parse(&row.get::<_, String>(5)?).unwrap_or(DeliveryState::Failed);
    let updated_at: f64 = row.get(9)?;
    Ok(Delivery {
        id: row.get(0)?,
        send_key: row.get(1)?,
        source: source.unwrap_or_else(|| Source::new(&platform, ChatType::Dm, "")),
        session_id: row.get(3)?,
        text: row.get(4)?,
        extra: extra.unwrap_or_default(),
        state,
        started_at: (state == DeliveryState::Sending).then_some(updated_at),
        message_id: row.get(6)?,
    })
}
