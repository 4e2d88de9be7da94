//! Sessions are released from chats that have ended, with one note, whatever comes first and however often.

use hermesd::domain::{ChatType, EndReason, EndedPlace, Source};
use hermesd::store::{ChatsEnd, Delivery, NewDelivery, NewInbound, ReleasedChats, Store};

use crate::support::{Home, SESSION, TITLE, add_session, seed_session};

const OTHER: &str = "20260102_090000_bbbbbb";
const THREAD: &str = "301";

fn thread(user: &str) -> Source {
    Source {
        thread_id: Some(THREAD.into()),
        parent_chat_id: Some("100".into()),
        scope_id: Some("9".into()),
        user_id: Some(user.into()),
        ..Source::new("discord", ChatType::Thread, THREAD)
    }
}

fn key(user: &str) -> String {
    format!("agent:main:discord:thread:{THREAD}:{THREAD}:{user}")
}

fn around() -> Source {
    Source::new("discord", ChatType::Group, "100")
}

async fn binds(store: &Store, session: &str, user: &str) {
    let taken = store.take_to_chat(session, &key(user), &thread(user)).await;
    taken.expect("a binding");
}

/// Two sessions in one thread, one for each person.
async fn two_in_a_thread() -> (Home, Store) {
    let home = Home::new();
    seed_session(&home).await;
    add_session(&home, OTHER, "Other");
    let store = home.store();
    for (session, user) in [(SESSION, "1"), (OTHER, "2")] {
        binds(&store, session, user).await;
    }
    (home, store)
}

async fn end_of(store: &Store, place: &EndedPlace) -> ChatsEnd {
    ChatsEnd {
        platform: "discord".into(),
        reason: EndReason::Deleted,
        word: "thread".into(),
        chats: store.chats_in("discord", place).await.expect("chats"),
        tell: Some(around()),
    }
}

async fn end(store: &Store) -> ReleasedChats {
    let end = end_of(store, &EndedPlace::Chat(THREAD.into())).await;
    store.end_chats(&end).await.expect("an end")
}

/// A message of a person in the thread.
async fn says(store: &Store, user: &str, id: &str) -> i64 {
    let new = NewInbound {
        message_id: id.into(),
        text: "hello".into(),
        files: Vec::new(),
    };
    let accepted = store.accept_inbound(&key(user), &thread(user), new).await;
    accepted.expect("accepted").expect("new").id
}

/// The reply of the first session to a message.
async fn reply(store: &Store, inbound: i64) -> Delivery {
    let send = NewDelivery {
        send_key: format!("inbound:{inbound}:0"),
        source: thread("1"),
        session_id: SESSION.into(),
        handoff_id: None,
        text: "a reply".into(),
        extra: Default::default(),
    };
    let replies = store.dismiss_inbound(inbound, vec![send]).await;
    replies.expect("a reply").remove(0)
}

async fn redirect(store: &Store, reply: &Delivery) -> String {
    let redirected = store
        .redirect_delivery(
            reply,
            &around(),
            &key("1"),
            SESSION,
            ("notice", "reference"),
        )
        .await;
    redirected.expect("redirected").text
}

#[tokio::test]
async fn all_sessions_of_a_chat_are_released_with_one_note() {
    let (home, store) = two_in_a_thread().await;
    let released = end(&store).await;
    assert_eq!(released.chats.len(), 2);
    let note = released.note.expect("a note");
    assert!(note.is_end_note());
    assert_eq!(note.source.chat_id.as_deref(), Some("100"));
    for name in [TITLE, "Other"] {
        assert!(note.text.contains(&format!("\"{name}\"")), "{note:?}");
    }
    for user in ["1", "2"] {
        assert_eq!(store.live_session(&key(user)).await.unwrap(), None);
    }
    assert_eq!(end(&store).await, ReleasedChats::default());
    let notes: i64 = home
        .sqlite()
        .query_row("SELECT count(*) FROM hermesd_deliveries", [], |row| {
            row.get(0)
        })
        .unwrap();
    assert_eq!(notes, 1);
}

#[tokio::test]
async fn a_place_is_found_by_its_chat_its_channel_and_its_server() {
    let (_home, store) = two_in_a_thread().await;
    for (place, found) in [
        (EndedPlace::Chat(THREAD.into()), 2),
        (EndedPlace::Chat("100".into()), 2),
        (EndedPlace::Workspace("9".into()), 2),
        (EndedPlace::Chat("9".into()), 0),
        (EndedPlace::Workspace("100".into()), 0),
    ] {
        let chats = store.chats_in("discord", &place).await.unwrap();
        assert_eq!(chats.len(), found, "{place:?}");
        assert!(store.chats_in("slack", &place).await.unwrap().is_empty());
    }
}

#[tokio::test]
async fn a_chat_that_got_another_session_meanwhile_keeps_it() {
    let (home, store) = two_in_a_thread().await;
    let late = end_of(&store, &EndedPlace::Chat(THREAD.into())).await;
    add_session(&home, "20260103_090000_cccccc", "Third");
    binds(&store, "20260103_090000_cccccc", "1").await;
    let released = store.end_chats(&late).await.unwrap();
    let sessions: Vec<&str> = released
        .chats
        .iter()
        .map(|c| c.session_id.as_str())
        .collect();
    assert_eq!(sessions, [OTHER]);
    let live = store.live_session(&key("1")).await.unwrap();
    assert_eq!(live.as_deref(), Some("20260103_090000_cccccc"));
}

#[tokio::test]
async fn words_from_before_the_end_belong_to_the_session_and_later_ones_do_not() {
    let (_home, store) = two_in_a_thread().await;
    let before = says(&store, "1", "m1").await;
    end(&store).await;
    let after = says(&store, "1", "m2").await;
    let of = async |id| store.session_of_inbound(id).await.unwrap();
    assert_eq!(of(before).await.as_deref(), Some(SESSION));
    assert_eq!(of(after).await, None);
    let left = store.left(&key("1")).await.unwrap().expect("a record");
    assert_eq!(left.went_to, "nowhere");
    // In a terminal, the session answers no chat.
    store.take_home(SESSION).await.unwrap();
    assert_eq!(of(before).await, None);
    let left = store.left(&key("1")).await.unwrap().expect("a record");
    assert_eq!(left.went_to, "terminal");
}

#[tokio::test]
async fn a_reply_after_the_note_refers_to_it_and_goes_to_its_place() {
    let (_home, store) = two_in_a_thread().await;
    let message = says(&store, "1", "m1").await;
    end(&store).await;
    let reply = reply(&store, message).await;
    let place = store.end_note_place("discord", &key("1")).await.unwrap();
    assert_eq!(place.and_then(|p| p.chat_id).as_deref(), Some("100"));
    assert_eq!(redirect(&store, &reply).await, "reference\n\na reply");
}

#[tokio::test]
async fn a_redirected_reply_counts_as_the_note() {
    let (_home, store) = two_in_a_thread().await;
    let (first, _second) = (says(&store, "1", "m1").await, says(&store, "1", "m2").await);
    let reply = reply(&store, first).await;
    // Another message waits, so the chat stays on its session.
    assert_eq!(redirect(&store, &reply).await, "notice\n\na reply");
    let live = store.live_session(&key("1")).await.unwrap();
    assert_eq!(live.as_deref(), Some(SESSION));
    let released = end(&store).await;
    assert_eq!(released.chats.len(), 2);
    let note = released.note.expect("a note for the other session");
    assert!(!note.text.contains(TITLE), "{note:?}");
}

#[tokio::test]
async fn a_session_that_returns_makes_the_end_of_its_chat_void() {
    let (_home, store) = two_in_a_thread().await;
    end(&store).await;
    binds(&store, SESSION, "1").await;
    assert_eq!(store.left(&key("1")).await.unwrap(), None);
    let place = store.end_note_place("discord", &key("1")).await.unwrap();
    assert_eq!(place, None);
    // It can end again, with a note of its own.
    assert!(end(&store).await.note.is_some());
}
