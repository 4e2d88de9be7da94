//! Stores how far each account of a platform was read, and the home channels that people have chosen.

use rusqlite::{OptionalExtension, params};

use super::{Delivery, NewDelivery, Store, StoreError, deliveries};
use crate::clock;
use crate::domain::HomeChannel;

impl Store {
    /// The position in the messages of an account, and when it was stored.
    pub async fn cursor(
        &self,
        platform: &str,
        account: &str,
    ) -> Result<Option<(String, f64)>, StoreError> {
        let (platform, account) = (platform.to_owned(), account.to_owned());
        self.read(move |c| {
            let mut statement = c.prepare_cached(
                "SELECT value, at FROM hermesd_cursors WHERE platform = ?1 AND account = ?2",
            )?;
            Ok(statement
                .query_row([platform, account], |row| Ok((row.get(0)?, row.get(1)?)))
                .optional()?)
        })
        .await
    }

    pub async fn set_cursor(
        &self,
        platform: &str,
        account: &str,
        value: &str,
    ) -> Result<(), StoreError> {
        let row = (platform.to_owned(), account.to_owned(), value.to_owned());
        self.write_unflushed(move |c| {
            let mut upsert = c.prepare_cached(
                "INSERT INTO hermesd_cursors (platform, account, value, at) VALUES (?1, ?2, ?3, ?4)
                 ON CONFLICT (platform, account) DO UPDATE SET value = ?3, at = ?4",
            )?;
            upsert.execute(params![row.0, row.1, row.2, clock::now()])?;
            Ok(())
        })
        .await
    }

    /// Stores the home channel that a person has chosen. It is stored together with the configured home, because a
    /// home that is configured later wins. `note` is stored in the same transaction, once.
    pub async fn choose_home(
        &self,
        platform: &str,
        home: &HomeChannel,
        configured: Option<&str>,
        note: Option<NewDelivery>,
    ) -> Result<Option<Delivery>, StoreError> {
        let home = serde_json::to_string(home).map_err(|e| StoreError::Conflict(e.to_string()))?;
        let (platform, configured) = (platform.to_owned(), configured.map(str::to_owned));
        self.write(move |c| {
            c.execute(
                "INSERT INTO hermesd_homes (platform, home, configured, at) VALUES (?1, ?2, ?3, ?4)
                 ON CONFLICT (platform) DO UPDATE SET home = ?2, configured = ?3, at = ?4",
                params![platform, home, configured, clock::now()],
            )?;
            match &note {
                Some(note) => deliveries::insert_once(c, note),
                None => Ok(None),
            }
        })
        .await
    }

    /// The home channel that a person has chosen, unless the configured home has changed since.
    pub fn chosen_home(
        &self,
        platform: &str,
        configured: Option<&str>,
    ) -> Result<Option<HomeChannel>, StoreError> {
        self.look(|c| {
            let mut statement = c.prepare_cached(
                "SELECT home FROM hermesd_homes WHERE platform = ?1 AND configured IS ?2",
            )?;
            let home: Option<String> = statement
                .query_row(params![platform, configured], |row| row.get(0))
                .optional()?;
            Ok(home.and_then(|home| serde_json::from_str(&home).ok()))
        })
    }
}
