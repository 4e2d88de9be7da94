//! People who were let in with a pairing code, and those who ask for it.

use rusqlite::{Connection, OptionalExtension, Row, params};
use serde_json::Value;

use crate::clock;
use crate::domain::Source;
use crate::store::{Delivery, NewDelivery, Store, StoreError, deliveries};

/// Without letters and digits that look like one another.
const ALPHABET: &[u8] = b"ABCDEFGHJKLMNPQRSTUVWXYZ23456789";
const CODE_LENGTH: usize = 8;
/// How long a code can be used, in seconds.
const CODE_LIVES: f64 = 3600.0;
/// How long somebody who has got a code gets no other.
const ASKS_AGAIN: f64 = 600.0;
/// Codes that can be used at one time on a platform. One more takes the place of the oldest: strangers who ask keep no other
/// from asking.
const USABLE_AT_ONCE: i64 = 20;

#[derive(Debug, Clone, PartialEq)]
pub struct Person {
    pub platform: String,
    pub user_id: String,
    pub user_name: Option<String>,
    pub asked_at: f64,
    pub approved_at: Option<f64>,
}

impl Store {
    pub fn is_paired(&self, platform: &str, user_id: &str) -> Result<bool, StoreError> {
        self.look(|c| {
            let mut statement = c.prepare_cached(
                "SELECT 1 FROM hermesd_people WHERE platform = ?1 AND user_id = ?2 AND approved_at IS NOT NULL",
            )?;
            Ok(statement.exists([platform, user_id])?)
        })
    }

    /// The ids of all people who were let in on a platform.
    pub fn paired(&self, platform: &str) -> Result<Vec<String>, StoreError> {
        self.look(|c| {
            let mut statement = c.prepare_cached(
                "SELECT user_id FROM hermesd_people WHERE platform = ?1 AND approved_at IS NOT NULL",
            )?;
            let ids = statement
                .query_map([platform], |row| row.get(0))?
                .collect::<Result<_, _>>()?;
            Ok(ids)
        })
    }

    /// Somebody unknown has written. `words` makes what they are told of their code; it is kept with the code.
    pub async fn ask_to_pair(
        &self,
        source: &Source,
        words: impl Fn(&str) -> String + Send + 'static,
    ) -> Result<Option<Delivery>, StoreError> {
        let source = source.clone();
        self.write(move |c| {
            let Some(code) = ask(c, &source)? else {
                return Ok(None);
            };
            let note = NewDelivery {
                send_key: format!("pair:{code}"),
                source: source.clone(),
                session_id: String::new(),
                handoff_id: None,
                text: words(&code),
                extra: deliveries::DeliveryExtra::default(),
            };
            deliveries::insert(c, &note).map(Some)
        })
        .await
    }

    /// Lets in whoever got this code. `None`: there is no such code, or it has expired.
    pub async fn approve(
        &self,
        code: &str,
        welcome: &str,
    ) -> Result<Option<(Person, Option<Delivery>)>, StoreError> {
        let code: String = code.chars().filter(char::is_ascii_alphanumeric).collect();
        let (code, welcome) = (code.to_ascii_uppercase(), welcome.to_owned());
        self.write(move |c| {
            let now = clock::now();
            let approved = c
                .prepare_cached(&format!(
                    "UPDATE hermesd_people SET approved_at = ?2, code = NULL
                     WHERE code = ?1 AND asked_at > ?3 RETURNING {COLUMNS}, source"
                ))?
                .query_row(params![code, now, now - CODE_LIVES], |row| {
                    Ok((person(row)?, row.get::<_, String>(5)?))
                })
                .optional()?;
            let Some((person, source)) = approved else {
                return Ok(None);
            };
            let source = serde_json::from_str::<Value>(&source).ok();
            let note = source.and_then(|s| Source::from_origin(&s)).map(|source| {
                let note = NewDelivery {
                    send_key: format!("paired:{code}"),
                    source,
                    session_id: String::new(),
                    handoff_id: None,
                    text: welcome.clone(),
                    extra: deliveries::DeliveryExtra::default(),
                };
                deliveries::insert(c, &note)
            });
            Ok(Some((person, note.transpose()?)))
        })
        .await
    }

    /// Takes back what [`Store::approve`] gave, or a code that is out. False: there is no such person.
    pub async fn forget_person(&self, platform: &str, user_id: &str) -> Result<bool, StoreError> {
        let (platform, user_id) = (platform.to_owned(), user_id.to_owned());
        self.write(move |c| {
            let gone = c.execute(
                "DELETE FROM hermesd_people WHERE platform = ?1 AND user_id = ?2",
                [&platform, &user_id],
            )?;
            Ok(gone == 1)
        })
        .await
    }

    /// Everybody who was let in, and those whose code can still be used.
    pub async fn people(&self) -> Result<Vec<Person>, StoreError> {
        self.read(|c| {
            let mut statement = c.prepare_cached(&format!(
                "SELECT {COLUMNS} FROM hermesd_people WHERE approved_at IS NOT NULL OR asked_at > ?1
                 ORDER BY platform, asked_at"
            ))?;
            let people = statement
                .query_map([clock::now() - CODE_LIVES], person)?
                .collect::<Result<_, _>>()?;
            Ok(people)
        })
        .await
    }
}

const COLUMNS: &str = "platform, user_id, user_name, asked_at, approved_at";

fn person(row: &Row<'_>) -> rusqlite::Result<Person> {
    Ok(Person {
        platform: row.get(0)?,
        user_id: row.get(1)?,
        user_name: row.get(2)?,
        asked_at: row.get(3)?,
        approved_at: row.get(4)?,
    })
}

/// A code for this person. `None`: they got one a short time ago.
fn ask(c: &Connection, source: &Source) -> Result<Option<String>, StoreError> {
    let (Some(user_id), now) = (&source.user_id, clock::now()) else {
        return Ok(None);
    };
    let asked: Option<f64> = c
        .prepare_cached("SELECT asked_at FROM hermesd_people WHERE platform = ?1 AND user_id = ?2")?
        .query_row([&source.platform, user_id], |row| row.get(0))
        .optional()?;
    if asked.is_some_and(|asked| asked > now - ASKS_AGAIN) {
        return Ok(None);
    }
    c.prepare_cached(
        "DELETE FROM hermesd_people WHERE platform = ?1 AND approved_at IS NULL AND (asked_at <= ?2 OR user_id = ?3)",
    )?
    .execute(params![source.platform, now - CODE_LIVES, user_id])?;
    // Their rows stay, so that they do not get the next code at once.
    c.prepare_cached(
        "UPDATE hermesd_people SET code = NULL WHERE platform = ?1 AND code IS NOT NULL AND user_id NOT IN
             (SELECT user_id FROM hermesd_people WHERE platform = ?1 AND code IS NOT NULL
              ORDER BY asked_at DESC LIMIT ?2)",
    )?
    .execute(params![source.platform, USABLE_AT_ONCE - 1])?;
    let code = fresh_code()?;
    c.prepare_cached(
        "INSERT INTO hermesd_people (platform, user_id, user_name, code, source, asked_at)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
    )?
    .execute(params![
        source.platform,
        user_id,
        source.user_name,
        code,
        source.to_origin().to_string(),
        now
    ])?;
    Ok(Some(code))
}

/// From the kernel: a code that can be guessed lets strangers in.
fn fresh_code() -> Result<String, StoreError> {
    let mut bytes = [0u8; CODE_LENGTH];
    let mut random = std::fs::File::open("/dev/urandom").map_err(|e| no_randomness(&e))?;
    std::io::Read::read_exact(&mut random, &mut bytes).map_err(|e| no_randomness(&e))?;
    // The alphabet has 32 letters, so that none is likelier than another.
    let letter = |byte: u8| char::from(ALPHABET[usize::from(byte) % ALPHABET.len()]);
    Ok(bytes.into_iter().map(letter).collect())
}

fn no_randomness(error: &std::io::Error) -> StoreError {
    StoreError::Conflict(format!("no pairing code can be made: {error}"))
}
