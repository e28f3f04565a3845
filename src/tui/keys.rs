//! Key bindings. The help is generated from the same table.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::tui_view::TuiView;

/// An action of the user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the table says what each does")]
pub enum KeyAction {
    Quit,
    Help,
    Show(TuiView),
    NextView,
    Up,
    Down,
    PageUp,
    PageDown,
    First,
    Last,
    Left,
    Right,
    NextPart,
    PreviousPart,
    Open,
    Close,
    Filter,
    Unfilter,
    Search,
    SearchNext,
    SearchPrevious,
    GoTo,
    NextIncomplete,
    PreviousIncomplete,
    NextError,
    PreviousError,
    NextSlow,
    PreviousSlow,
    Mark,
    NextMark,
    Unmark,
    Tail,
    FollowFile,
    FollowSlot,
    FollowConnection,
    FollowXid,
    Follow,
    SortRight,
    SortLeft,
    Reverse,
    Pause,
    CopyValue,
    CopyFilter,
    CopyCommand,
    FilterValue,
    Save,
    Waterfall,
    Hex,
    Zoom,
    Time,
    Reload,
    Redraw,
    Suspend,
}

/// A section of the help.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "their titles say it")]
pub enum HelpSection {
    Views,
    Moving,
    Finding,
    Choosing,
    Looking,
    Taking,
    Program,
}

impl HelpSection {
    /// All sections, in the order of the help.
    pub const ALL: [Self; 7] =
        [Self::Views, Self::Moving, Self::Finding, Self::Choosing, Self::Looking, Self::Taking, Self::Program];

    /// Returns the title.
    pub const fn title(self) -> &'static str {
        match self {
            Self::Views => "Views",
            Self::Moving => "Navigation",
            Self::Finding => "Search",
            Self::Choosing => "Filtering and sorting",
            Self::Looking => "Details",
            Self::Taking => "Copying and saving",
            Self::Program => "Program",
        }
    }
}

/// Keys bound to an action.
#[derive(Debug)]
pub struct KeyBinding {
    /// The keys, any of which triggers the action.
    pub keys: &'static [(KeyModifiers, KeyCode)],
    /// The action.
    pub action: KeyAction,
    /// Section of the help.
    pub section: HelpSection,
    /// Help text.
    pub help: &'static str,
}

const NONE: KeyModifiers = KeyModifiers::NONE;
const CTRL: KeyModifiers = KeyModifiers::CONTROL;

const fn ch(letter: char) -> (KeyModifiers, KeyCode) {
    (NONE, KeyCode::Char(letter))
}

const fn ctrl(letter: char) -> (KeyModifiers, KeyCode) {
    (CTRL, KeyCode::Char(letter))
}

const fn key(code: KeyCode) -> (KeyModifiers, KeyCode) {
    (NONE, code)
}

macro_rules! bindings {
    ($($section:ident: { $([$($key:expr),+] $action:expr, $help:literal;)+ })+) => {
        &[$($(KeyBinding { keys: &[$($key),+], action: $action, section: HelpSection::$section, help: $help },)+)+]
    };
}

/// All key bindings.
pub const TABLE: &[KeyBinding] = bindings! {
    Views: {
        [ch('1')] KeyAction::Show(TuiView::Transactions), "Transactions";
        [ch('2')] KeyAction::Show(TuiView::Operations), "operations: rates, bytes, latencies, errors";
        [ch('3')] KeyAction::Show(TuiView::Connections), "connections, with their credits";
        [ch('4')] KeyAction::Show(TuiView::Files), "files, the busiest first";
        [ch('5')] KeyAction::Show(TuiView::Frames), "frames, at the selected transaction";
        [ch('6')] KeyAction::Show(TuiView::Charts), "charts: throughput and latencies";
        [ch('v')] KeyAction::NextView, "next view";
    }
    Moving: {
        [key(KeyCode::Up), ch('k')] KeyAction::Up, "up";
        [key(KeyCode::Down), ch('j')] KeyAction::Down, "down";
        [key(KeyCode::PageUp), ctrl('b')] KeyAction::PageUp, "page up";
        [key(KeyCode::PageDown), ctrl('f')] KeyAction::PageDown, "page down";
        [key(KeyCode::Home)] KeyAction::First, "first line";
        [key(KeyCode::End), ch('G')] KeyAction::Last, "last line";
        [key(KeyCode::Left), ch('h')] KeyAction::Left, "collapse; scroll left";
        [key(KeyCode::Right), ch('l')] KeyAction::Right, "expand; scroll right";
        [key(KeyCode::Tab)] KeyAction::NextPart, "next pane: list, tree, bytes";
        [key(KeyCode::BackTab)] KeyAction::PreviousPart, "previous pane";
    }
    Finding: {
        [ch('/')] KeyAction::Search, "search for text";
        [ch('n')] KeyAction::SearchNext, "next match";
        [ch('N')] KeyAction::SearchPrevious, "previous match";
        [ch('g'), ch(':')] KeyAction::GoTo, "go to a frame, an XID (0x...), a time (1.5s), a transaction (#61)";
        [ch('i')] KeyAction::NextIncomplete, "next incomplete transaction";
        [ch('I')] KeyAction::PreviousIncomplete, "previous incomplete transaction";
        [ch('e')] KeyAction::NextError, "next failed transaction";
        [ch('E')] KeyAction::PreviousError, "previous failed transaction";
        [ch('s')] KeyAction::NextSlow, "next slow transaction (4 times the median of its operation, or --slow)";
        [ch('S')] KeyAction::PreviousSlow, "previous slow transaction";
        [ch('m')] KeyAction::Mark, "mark or unmark";
        [ch('\'')] KeyAction::NextMark, "next marked line";
        [ch('M')] KeyAction::Unmark, "remove all marks";
    }
    Choosing: {
        [ch('f'), ch('&')] KeyAction::Filter, "display filter in Wireshark syntax; Tab completes";
        [ch('u')] KeyAction::Unfilter, "remove the filter";
        [ch('F')] KeyAction::Follow, "follow: only the same file, slot, connection or XID";
        [ch('=')] KeyAction::FilterValue, "filter by the selected value";
        [ch('t')] KeyAction::Tail, "follow new lines on or off";
        [ch('>'), ch('.')] KeyAction::SortRight, "sort by the next column";
        [ch('<'), ch(',')] KeyAction::SortLeft, "sort by the previous column";
        [ch('r')] KeyAction::Reverse, "reverse the order";
        [ch(' '), ch('p')] KeyAction::Pause, "pause or continue, without loss";
    }
    Looking: {
        [key(KeyCode::Enter), ch('o')] KeyAction::Open, "open: tree and bytes, or related transactions";
        [key(KeyCode::Esc)] KeyAction::Close, "back";
        [ch('w')] KeyAction::Waterfall, "waterfall of call, RDMA Reads and Writes and reply, or tree";
        [ch('x')] KeyAction::Hex, "show or hide bytes";
        [ch('z')] KeyAction::Zoom, "maximize the tree or the list";
        [ch('T')] KeyAction::Time, "time format: relative, delta, time of day, date";
    }
    Taking: {
        [ch('y')] KeyAction::CopyValue, "copy the selected value";
        [ch('Y')] KeyAction::CopyFilter, "copy a filter for the selected value";
        [ch('c')] KeyAction::CopyCommand, "copy commands that reproduce it";
        [ch('W')] KeyAction::Save, "save marked or selected as pcapng; 'all': all shown; 'control': ACKs, NAKs too";
    }
    Program: {
        [ch('?'), key(KeyCode::F(1))] KeyAction::Help, "this help";
        [ch('R')] KeyAction::Reload, "reload the files";
        [ctrl('l')] KeyAction::Redraw, "redraw the screen";
        [ctrl('z')] KeyAction::Suspend, "suspend; fg resumes";
        [ch('q'), ctrl('c')] KeyAction::Quit, "quit";
    }
};

/// Returns the action bound to a key.
pub fn action(event: KeyEvent) -> Option<KeyAction> {
    // An uppercase letter already implies Shift.
    let modifiers = event.modifiers.difference(KeyModifiers::SHIFT);
    let is = |(bound_modifiers, code): &(KeyModifiers, KeyCode)| *bound_modifiers == modifiers && *code == event.code;
    TABLE.iter().find(|binding| binding.keys.iter().any(is)).map(|binding| binding.action)
}

/// Returns the name of a key, as shown in the help.
pub fn name((modifiers, code): (KeyModifiers, KeyCode)) -> String {
    let name = match code {
        KeyCode::Char(' ') => "Space".to_owned(),
        KeyCode::Char(letter) => letter.to_string(),
        KeyCode::Up => "Up".to_owned(),
        KeyCode::Down => "Down".to_owned(),
        KeyCode::Left => "Left".to_owned(),
        KeyCode::Right => "Right".to_owned(),
        KeyCode::PageUp => "PgUp".to_owned(),
        KeyCode::PageDown => "PgDn".to_owned(),
        KeyCode::Home => "Home".to_owned(),
        KeyCode::End => "End".to_owned(),
        KeyCode::Tab => "Tab".to_owned(),
        KeyCode::BackTab => "Shift-Tab".to_owned(),
        KeyCode::Enter => "Enter".to_owned(),
        KeyCode::Esc => "Esc".to_owned(),
        KeyCode::F(number) => format!("F{number}"),
        other => format!("{other:?}"),
    };
    if modifiers == CTRL { format!("Ctrl-{name}") } else { name }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_key_does_two_things() {
        let keys: Vec<_> = TABLE.iter().flat_map(|binding| binding.keys).collect();
        for (at, key) in keys.iter().enumerate() {
            assert!(!keys[..at].contains(key), "{key:?}");
        }
    }

    #[test]
    fn a_capital_letter_is_found_with_and_without_shift() {
        for modifiers in [NONE, KeyModifiers::SHIFT] {
            assert_eq!(action(KeyEvent::new(KeyCode::Char('G'), modifiers)), Some(KeyAction::Last));
        }
        assert_eq!(action(KeyEvent::new(KeyCode::Char('c'), CTRL)), Some(KeyAction::Quit));
        assert_eq!(action(KeyEvent::new(KeyCode::Char('c'), NONE)), Some(KeyAction::CopyCommand));
    }

    #[test]
    fn every_section_has_keys() {
        for section in HelpSection::ALL {
            assert!(TABLE.iter().any(|binding| binding.section == section), "{section:?}");
        }
    }
}
