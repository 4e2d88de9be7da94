//! Converts what an adapter tells `hermesctl setup` to wire types.

use crate::platform::{Account, HomeTrial, Platform, PossibleHome, Server};
use crate::protocol::{DiagnoseAnswer, HomeChoice, HomeTrialView, PersonChoice, ServerChoice};

pub(super) fn servers(servers: Option<Vec<Server>>) -> DiagnoseAnswer {
    let choice = |Server { id, name }| ServerChoice { id, name };
    DiagnoseAnswer::Servers {
        servers: servers.map(|servers| servers.into_iter().map(choice).collect()),
    }
}

pub(super) fn homes(homes: Vec<PossibleHome>) -> DiagnoseAnswer {
    let choice = |home: PossibleHome| HomeChoice {
        chat: home.chat,
        name: home.name,
        kind: home.kind,
        missing: home.missing,
    };
    DiagnoseAnswer::Homes {
        homes: homes.into_iter().map(choice).collect(),
    }
}

pub(super) fn owner(adapter: &dyn Platform, owner: Option<Account>) -> DiagnoseAnswer {
    DiagnoseAnswer::Owner {
        person: owner.map(|Account { id, name }| PersonChoice { id, name }),
        own_id_hint: adapter.own_id_hint().to_owned(),
    }
}

pub(super) fn home_tried(trial: HomeTrial) -> DiagnoseAnswer {
    DiagnoseAnswer::HomeTried {
        trial: match trial {
            HomeTrial::ThreadDeleted => HomeTrialView::ThreadDeleted,
            HomeTrial::ThreadLeft(reason) => HomeTrialView::ThreadLeft { reason },
            HomeTrial::Chat(reason) => HomeTrialView::Chat { reason },
        },
    }
}
