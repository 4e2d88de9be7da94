//! `pair.list`, `pair.approve`, `pair.revoke`.

use super::{Answer, answer, not_found, refused};
use crate::control::{Desk, views};
use crate::protocol::PersonName;

/// What the person is told who was let in.
const WELCOME: &str =
    "You are in. Say what you want to talk about; /help lists what else there is.";

pub(super) async fn list(desk: &Desk) -> Answer {
    let people = desk.store.people().await?;
    answer(&people.into_iter().map(views::person).collect::<Vec<_>>())
}

pub(super) async fn approve(desk: &Desk, code: &str) -> Answer {
    let approved = desk.store.approve(code, WELCOME).await?;
    let Some((person, note)) = approved else {
        return Err(refused(
            "no_such_code",
            "nobody has this code, or it has expired",
            "codes live for an hour: the person gets another by writing to the bot again",
        ));
    };
    tracing::info!(
        platform = person.platform,
        user = person.user_id,
        "somebody was let in"
    );
    if let Some(note) = note {
        desk.router.post(note);
    }
    answer(&views::person(person))
}

pub(super) async fn revoke(desk: &Desk, wish: PersonName) -> Answer {
    if !desk.store.forget_person(&wish.platform, &wish.user).await? {
        let what = format!("person {} who was let in on {}", wish.user, wish.platform);
        return Err(not_found(&what, "see `hermesctl pair`"));
    }
    tracing::info!(
        platform = wish.platform,
        user = wish.user,
        "somebody is no longer let in"
    );
    answer(&wish)
}
