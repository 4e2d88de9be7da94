//! `session.list`, `.show`, `.transcript`, `.search`, `.rename`, `.resume`.

use crate::control::Desk;
use crate::control::handlers::{Answer, LONGEST_LIST, USUAL_LIST, answer};
use crate::protocol::{
    ResumedView, SessionList, SessionRename, SessionResume, SessionSearch, TranscriptWish,
};
use crate::sessions;
use crate::sessions::resolve;
use crate::store::SessionFilter;
use crate::views;

pub(super) async fn list(desk: &Desk, wish: SessionList) -> Answer {
    let limit = wish.limit.unwrap_or(USUAL_LIST).min(LONGEST_LIST);
    let sessions = desk
        .store
        .list_sessions(SessionFilter {
            source: wish.source,
            live: wish.live,
            limit,
        })
        .await?;
    answer(&sessions.iter().map(views::session).collect::<Vec<_>>())
}

pub(super) fn show(desk: &Desk, name: &str) -> Answer {
    answer(&views::session(&resolve(&desk.store, name)?))
}

pub(super) async fn transcript(desk: &Desk, wish: TranscriptWish) -> Answer {
    let session = resolve(&desk.store, &wish.session)?;
    let (id, store) = (session.id.clone(), &desk.store);
    // Only the page that was asked for leaves the thread that reads.
    let page = store.with_transcript(&id, move |transcript| {
        views::transcript(&session, &transcript, &wish)
    });
    answer(&page.await?)
}

pub(super) async fn search(desk: &Desk, wish: SessionSearch) -> Answer {
    let limit = wish.limit.unwrap_or(USUAL_LIST).min(LONGEST_LIST);
    let hits = desk.store.search(&wish.words, limit).await?;
    answer(&hits.iter().map(views::hit).collect::<Vec<_>>())
}

pub(super) async fn rename(desk: &Desk, wish: SessionRename) -> Answer {
    desk.terminals.ensure_row(&wish.session).await?;
    let session = sessions::rename(&desk.store, &wish.session, &wish.title).await?;
    answer(&views::session(&session))
}

pub(super) async fn resume(desk: &Desk, wish: SessionResume) -> Answer {
    let (session, came_from) = desk.terminals.resume(wish.session.as_deref()).await?;
    answer(&ResumedView {
        session: views::session(&session),
        came_from,
    })
}
