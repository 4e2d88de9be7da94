//! Resolves conversations that context compression has split.
//!
//! Hermes may end a row with the reason `compression` and continue in a child row. All rows of such a lineage are one
//! conversation. Its root, the first row, names it. Its tip, the live row, is the row that any of their ids means. The
//! next change of the conversation moves everything that depends on earlier rows to the tip.

use rusqlite::{Connection, OptionalExtension, params};
use serde_json::Value;

use super::sessions::LONGEST_LINEAGE;
use super::{Store, StoreError, chat_columns, lenient, routing, sessions, turns};
use crate::clock;
use crate::store::handoff_log::{self, Changed};

impl Store {
    /// The ids of this row and of all earlier rows of its conversation.
    pub fn lineage(&self, id: &str) -> Result<Vec<String>, StoreError> {
        self.look(|c| lineage(c, id))
    }

    /// The first row of a conversation. Compression never changes it.
    pub fn root(&self, id: &str) -> Result<String, StoreError> {
        self.look(|c| root(c, id))
    }
}

pub(super) fn root(c: &Connection, id: &str) -> Result<String, StoreError> {
    let first = ancestors(c, id)?.pop();
    Ok(first.unwrap_or_else(|| id.to_owned()))
}

/// The earlier rows of a conversation, the nearest first.
pub(super) fn ancestors(c: &Connection, id: &str) -> Result<Vec<String>, StoreError> {
    // Most sessions have no parent, and every step of a handoff asks.
    if !c
        .prepare_cached("SELECT 1 FROM sessions WHERE id = ?1 AND parent_session_id IS NOT NULL")?
        .exists([id])?
    {
        return Ok(Vec::new());
    }
    let mut statement = c.prepare_cached(
        "SELECT child.parent_session_id FROM sessions child
         WHERE child.id = ?1 AND child.source <> 'tool'
           AND (SELECT end_reason FROM sessions WHERE id = child.parent_session_id) = 'compression'
           AND CASE WHEN json_valid(COALESCE(child.model_config, '{}'))
                    THEN json_extract(COALESCE(child.model_config, '{}'), '$._branched_from') IS NOT child.parent_session_id
                     AND json_extract(COALESCE(child.model_config, '{}'), '$._delegate_from') IS NOT child.parent_session_id
                     AND json_extract(COALESCE(child.model_config, '{}'), '$._reset_from') IS NOT child.parent_session_id
                    ELSE 1 END",
    )?;
    let mut lineage = vec![id.to_owned()];
    while lineage.len() <= LONGEST_LINEAGE {
        let current = &lineage[lineage.len() - 1];
        let parent: Option<String> = statement
            .query_row([current], |row| lenient::name(row, 0))
            .optional()?;
        match parent {
            Some(parent) if !lineage.contains(&parent) => lineage.push(parent),
            _ => break,
        }
    }
    lineage.remove(0);
    Ok(lineage)
}

/// This row and all earlier rows of its conversation, the nearest first.
pub(super) fn lineage(c: &Connection, id: &str) -> Result<Vec<String>, StoreError> {
    let mut lineage = ancestors(c, id)?;
    lineage.insert(0, id.to_owned());
    Ok(lineage)
}

/// Returns the tip of the conversation of `id`, and moves everything that depends on earlier rows to it.
pub(super) fn settle(
    c: &Connection,
    changed: &mut Changed<'_>,
    id: &str,
) -> Result<String, StoreError> {
    let tip = sessions::tip(c, id)?;
    let ancestors = ancestors(c, &tip)?;
    for ancestor in &ancestors {
        move_handoff(c, changed, ancestor, &tip)?;
        move_own_rows(c, ancestor, &tip)?;
    }
    if !ancestors.is_empty() {
        move_chat(c, changed, &ancestors, &tip)?;
    }
    Ok(tip)
}

/// Moves a handoff in flight to the tip. If the tip has one of its own, that one is newer and wins.
fn move_handoff(
    c: &Connection,
    changed: &mut Changed<'_>,
    ancestor: &str,
    tip: &str,
) -> Result<(), StoreError> {
    let in_flight = |id: &str| -> Result<Option<(String, Option<String>)>, StoreError> {
        let mut statement = c.prepare_cached(
            "SELECT handoff_state, handoff_platform FROM sessions
             WHERE id = ?1 AND handoff_state IN ('pending', 'running')",
        )?;
        let row = statement.query_row([id], |row| Ok((row.get(0)?, lenient::text(row, 1)?)));
        Ok(row.optional()?)
    };
    if let Some((state, platform)) = in_flight(ancestor)? {
        if in_flight(tip)?.is_some() {
            let reason = "overtaken by a newer request";
            if let Some(row) = handoff_log::in_flight(c, ancestor)? {
                handoff_log::close(c, changed, row.id, reason)?;
            }
            c.execute(
                "UPDATE sessions SET handoff_state = 'failed', handoff_error = ?2 WHERE id = ?1",
                [ancestor, reason],
            )?;
        } else {
            c.execute(
                "UPDATE sessions SET handoff_state = ?2, handoff_platform = ?3, handoff_error = NULL WHERE id = ?1",
                params![tip, state, platform],
            )?;
            c.execute(
                "UPDATE sessions SET handoff_state = NULL, handoff_platform = NULL, handoff_error = NULL WHERE id = ?1",
                [ancestor],
            )?;
        }
    }
    c.execute(
        "UPDATE OR IGNORE hermesd_handoffs INDEXED BY hermesd_handoffs_session SET session_id = ?2 WHERE session_id = ?1",
        [ancestor, tip],
    )?;
    Ok(())
}

/// Moves our own rows about a session, in tables with one row per session.
fn move_own_rows(c: &Connection, ancestor: &str, tip: &str) -> Result<(), StoreError> {
    turns::forget_start(c, ancestor)?;
    for table in ["hermesd_turns", "hermesd_agents", "hermesd_terminals"] {
        let moving = format!("UPDATE OR IGNORE {table} SET session_id = ?2 WHERE session_id = ?1");
        c.prepare_cached(&moving)?.execute([ancestor, tip])?;
        let stale = format!("DELETE FROM {table} WHERE session_id = ?1");
        c.prepare_cached(&stale)?.execute([ancestor])?;
    }
    Ok(())
}

/// Moves a chat that is bound to an earlier row to the tip, in the routing entry and in the tip's columns.
fn move_chat(
    c: &Connection,
    changed: &mut Changed<'_>,
    ancestors: &[String],
    tip: &str,
) -> Result<(), StoreError> {
    let key_of = |id: &str| -> Result<Option<String>, StoreError> {
        Ok(sessions::by_id(c, id)?.and_then(|session| session.session_key))
    };
    let own = key_of(tip)?;
    let mut from = None;
    for ancestor in ancestors {
        if let Some(key) = key_of(ancestor)? {
            from = Some((ancestor, key));
            break;
        }
    }
    let Some(key) = own.clone().or(from.as_ref().map(|(_, key)| key.clone())) else {
        return Ok(());
    };
    let Some(entry) = routing::entry(c, changed.scope, &key)? else {
        return Ok(());
    };
    let bound = routing::session_of(&entry);
    if routing::live(c, bound.clone())?.as_deref() != Some(tip) {
        return Ok(());
    }
    if bound.as_deref() != Some(tip) {
        rename_in_entry(c, changed, &key, &entry, tip)?;
    }
    if let (None, Some((ancestor, _))) = (own, from)
        && let Some(columns) = chat_columns::read(c, ancestor)?
    {
        chat_columns::write(c, tip, &columns, None)?;
    }
    Ok(())
}

/// Changes the session in a chat's entry, as Hermes does after compression.
fn rename_in_entry(
    c: &Connection,
    changed: &mut Changed<'_>,
    key: &str,
    entry: &str,
    session_id: &str,
) -> Result<(), StoreError> {
    let Ok(Value::Object(mut entry)) = serde_json::from_str(entry) else {
        return Ok(());
    };
    let now = clock::now();
    entry.insert("session_id".into(), session_id.into());
    entry.insert("updated_at".into(), clock::iso_local(now).into());
    c.execute(
        "UPDATE gateway_routing SET entry_json = ?3, updated_at = ?4 WHERE scope = ?1 AND session_key = ?2",
        params![changed.scope, key, Value::Object(entry).to_string(), now],
    )?;
    changed.keys.push(key.to_owned());
    Ok(())
}
