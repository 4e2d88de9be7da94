//! Stores people who asked for access, their pairing codes, and people who were approved.

use rusqlite::{Connection, OptionalExtension, Row, params};
use serde_json::Value;

use crate::clock;
use crate::domain::Source;
use crate::store::{Delivery, NewDelivery, Store, StoreError, deliveries};

/// No characters that look alike.
const ALPHABET: &[u8] = b"ABCDEFGHJKLMNPQRSTUVWXYZ23456789";
const CODE_LENGTH: usize = 8;
/// How long a code is valid, in seconds.
const CODE_LIVES: f64 = 3600.0;
/// How long a person with a code gets no new one, in seconds.
const ASKS_AGAIN: f64 = 600.0;
/// The number of valid codes per platform. A new code replaces the oldest one, so that strangers cannot block others
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

    /// The ids of all approved people of a platform.
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

    /// Gives an unknown person a code. `words` makes the message with the code, stored in the same transaction.
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

    /// Approves the person who got this code. `None` if the code does not exist or has expired.
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

    /// Revokes a person's access or code. False if there is no such person.
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

    /// All approved people, and those with a valid code.
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

/// Makes a code for this person. `None` if they got one recently.
fn ask(c: &Connection, source: &Source) -> Result<Option<String>, StoreError> {
    let (Some(user_id), now) = (&source.user_id, clock::now()) else {
        return Ok(None);
    };
    let known: Option<(f64, bool)> = c
        .prepare_cached(
            "SELECT asked_at, approved_at IS NOT NULL FROM hermesd_people WHERE platform = ?1 AND user_id = ?2",
        )?
        .query_row([&source.platform, user_id], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    // An approval can come between the decision about a message and this.
    if known.is_some_and(|(asked, is_approved)| is_approved || asked > now - ASKS_AGAIN) {
        return Ok(None);
    }
    c.prepare_cached(
        "DELETE FROM hermesd_people WHERE platform = ?1 AND approved_at IS NULL AND (asked_at <= ?2 OR user_id = ?3)",
    )?
    .execute(params![source.platform, now - CODE_LIVES, user_id])?;
    // The rows stay, so that these people do not get the next code at once.
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

/// Uses the kernel's random source, because a code must not be guessable.
fn fresh_code() -> Result<String, StoreError> {
    let mut bytes = [0u8; CODE_LENGTH];
    let mut random = std::fs::File::open("/dev/urandom").map_err(|e| no_randomness(&e))?;
    std::io::Read::read_exact(&mut random, &mut bytes).map_err(|e| no_randomness(&e))?;
    // 32 letters divide 256 evenly, so all are equally likely.
    let letter = |byte: u8| char::from(ALPHABET[usize::from(byte) % ALPHABET.len()]);
    Ok(bytes.into_iter().map(letter).collect())
}

fn no_randomness(error: &std::io::Error) -> StoreError {
    StoreError::Conflict(format!("cannot make a pairing code: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::ChatType;
    use crate::store::OpenMode;

    /// The person's message was judged before the approval, and asks for a code after it.
    #[tokio::test]
    async fn an_approved_person_gets_no_code() {
        let home = tempfile::tempdir().unwrap();
        let store = Store::open(home.path(), OpenMode::Create, &Default::default()).unwrap();
        let mut source = Source::new("telegram", ChatType::Dm, "5");
        source.user_id = Some("5".into());
        let asked = store.ask_to_pair(&source, str::to_owned).await.unwrap();
        let code = asked.expect("a note").text;
        store
            .approve(&code, "welcome")
            .await
            .unwrap()
            .expect("a person");
        let c = Connection::open(home.path().join("state.db")).unwrap();
        c.execute("UPDATE hermesd_people SET asked_at = 0", [])
            .unwrap();
        assert!(
            store
                .ask_to_pair(&source, str::to_owned)
                .await
                .unwrap()
                .is_none()
        );
    }
}
