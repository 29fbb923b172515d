"""Plan: which model, with which settings. The form comes from the engine's option table."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from PySide6.QtCore import Qt, QTimer
from PySide6.QtGui import QKeySequence, QShortcut
from PySide6.QtWidgets import QButtonGroup, QRadioButton, QVBoxLayout, QWidget

from twinrig.domain.errors import ConflictError, FieldError, ProfileError
from twinrig.domain.profile import Profile
from twinrig.domain.server import ACTIVE_STATES
from twinrig.messages import N_, Message, message
from twinrig.qt.bridge import TaskHandle
from twinrig.qt.pages.base import Page, PageContext
from twinrig.qt.viewmodels.models import engines_for
from twinrig.qt.viewmodels.plan import EnvRow, ExtraRow, PlanModel, group_options, merge_errors
from twinrig.qt.viewmodels.profiles import copy_name
from twinrig.qt.viewmodels.saving import Opened, new_profile, open_profile, overwrite, save_new
from twinrig.qt.widgets.dialogs import Dialogs, QtDialogs
from twinrig.qt.widgets.launch_dialog import LaunchDialog
from twinrig.qt.widgets.memory_panel import MemoryPanel
from twinrig.qt.widgets.option_field import FaultLabel
from twinrig.qt.widgets.option_form import OptionForm
from twinrig.qt.widgets.pairs_table import PairsTable
from twinrig.qt.widgets.parts import Button, Label, Notice, ScrollingRest
from twinrig.qt.widgets.profile_head import ProfileHead
from twinrig.qt.widgets.wrapping import wrap_row

EXPERT_FLAG = "plan-expert"


class PlanPage(Page):
    """Edits the current profile, or a new one while none is chosen. Nothing is saved by itself."""

    page_id = "plan"
    title = N_("Plan")
    icon = "plan"

    def __init__(
        self,
        context: PageContext,
        parent: QWidget | None = None,
        *,
        dialogs: Dialogs | None = None,
    ) -> None:
        super().__init__(context, parent)
        self._dialogs = dialogs or QtDialogs()
        self.model: PlanModel | None = None
        self._opening: TaskHandle | None = None
        self._wanted: str | None = None
        self._fresh: Profile | None = None
        self._scanned = False
        self._saving = False
        self._tried = False
        self._to_reveal = ""
        self._build()
        context.settings.current_profile_changed.connect(self._other_chosen)
        self._render()

    def _build(self) -> None:
        context = self.context
        self._headline = Label(context, scale=1.3)
        self._state = Label(context, tone="muted")
        self._simple = QRadioButton()
        self._expert = QRadioButton()
        bind = context.texts.bind
        for button, text, tip in (
            (self._simple, N_("Simple"), N_("What most people need")),
            (
                self._expert,
                N_("Expert"),
                N_("Every setting, environment variables and further keys"),
            ),
        ):
            bind(button, QRadioButton.setText, text)
            bind(button, QWidget.setAccessibleName, text)
            bind(button, QWidget.setToolTip, tip)
        self._modes = QButtonGroup(self)
        self._modes.addButton(self._simple)
        self._modes.addButton(self._expert)
        expert = context.settings.flag(EXPERT_FLAG)
        (self._expert if expert else self._simple).setChecked(True)
        self._expert.toggled.connect(self._mode_changed)
        self._notice = Notice(context)
        self.head = ProfileHead(context, self._dialogs)
        self.head.edited.connect(self._edited)
        self.head.engine_chosen.connect(self._engine_chosen)
        self.form = OptionForm(context)
        self.form.edited.connect(self._setting_edited)
        self.env = PairsTable(
            context,
            N_("Environment variables"),
            N_("Given to the engine's process alone. Never put a key or token here."),
            (N_("Name"), N_("Value"), N_("Why")),
        )
        self.env.edited.connect(self._env_edited)
        self.extra = PairsTable(
            context,
            N_("Further options of the engine"),
            N_("For keys this form does not know; they reach the engine as they are."),
            (N_("Key"), N_("Value")),
        )
        self.extra.edited.connect(self._extra_edited)
        self._others = FaultLabel(context)
        self.memory = MemoryPanel(context)
        self.memory.chosen.connect(self._chosen)
        self._layout_parts()

    def _layout_parts(self) -> None:
        context = self.context
        inner = QWidget()
        column = QVBoxLayout(inner)
        for widget in (self.head, self.form, self.env, self.extra):
            column.addWidget(widget)
        column.addStretch(1)
        self._scroll = ScrollingRest(inner)
        context.texts.bind(self._scroll, QWidget.setAccessibleName, N_("Settings of the profile"))
        self._show = Button(
            context, N_("Show the exact files and command"), self.show_launch, icon="log"
        )
        self._revert = Button(
            context, N_("Revert"), self.revert, icon="undo", tip=N_("Back to the saved version")
        )
        self._save_as = Button(context, N_("Save as new profile…"), self.save_as, icon="add")
        self._save = Button(context, N_("Save"), self.save, icon="save", tip=N_("Save (Ctrl+S)"))
        layout = QVBoxLayout(self)
        layout.addLayout(
            wrap_row(self._headline, self._simple, self._expert, stretch=self._headline)
        )
        layout.addWidget(self._state)
        layout.addWidget(self._notice)
        layout.addWidget(self.memory)
        layout.addWidget(self._scroll, 1)
        layout.addWidget(self._others)
        layout.addLayout(wrap_row(self._show, None, self._revert, self._save_as, self._save))
        shortcut = QShortcut(QKeySequence(QKeySequence.StandardKey.Save), self)
        shortcut.setContext(Qt.ShortcutContext.WidgetWithChildrenShortcut)
        shortcut.activated.connect(self.save)

    @property
    def dirty(self) -> bool:
        """There are edits that are not saved. A new profile nobody touched does not count."""
        if self.model is None:
            return False
        if self.model.base is None:
            return self.model.build()[0] != self._fresh or bool(self.model.build()[1])
        return self.model.dirty

    def on_shown(self) -> None:
        """Open the current profile, unless something is being edited."""
        if not self._scanned:
            self._scanned = True
            self.head.picker.scan()
        self._follow()

    def refresh(self) -> None:
        """F5: read the file again, if nothing was edited; look for models again."""
        self.head.picker.scan()
        self.memory.reload()
        if self.model is not None and not self.dirty:
            self.open(self.context.settings.current_profile)

    def reveal(self, part: str) -> None:
        """Go to a setting by its option id, as soon as the profile is open."""
        self._to_reveal = part
        if self._opening is None or self._opening.finished:
            self._go_to_setting()

    def _go_to_setting(self) -> None:
        name, model = self._to_reveal, self.model
        if not name or model is None:
            return
        self._to_reveal = ""
        if name in model.options and name not in self.form.fields:
            self._expert.setChecked(True)  # it fills the form anew, with all settings
        field = self.form.fields.get(name)
        if field is not None:
            self.form.filter.clear()
            field.highlight()
            field.editor.setFocus(Qt.FocusReason.OtherFocusReason)
            # Sizes are right only after the form was laid out.
            QTimer.singleShot(0, field, lambda: self._scroll.ensureWidgetVisible(field, 0, 80))

    def _follow(self) -> None:
        wanted = self.context.settings.current_profile
        if self._wanted == wanted:
            return
        if self.dirty:
            name = self.model.profile.name if self.model is not None else ""
            self._notice.tell(
                N_("Changes to {name} are not saved yet."),
                tone="warn",
                actions=(
                    (N_("Save"), self.save),
                    (N_("Drop them and open the chosen profile"), lambda: self.open(wanted)),
                ),
                name=name,
            )
        else:
            self.open(wanted)

    def open(self, profile_id: str) -> None:
        """Edit this profile, "" = a new one. Edits that are not saved are dropped."""
        self._wanted = profile_id
        work = self.context.workbench
        if profile_id:
            opening = open_profile(work, profile_id)
        else:
            engines = engines_for(work)
            name = self.tr(N_("New profile"))
            opening = new_profile(work, engines[0].id if engines else "", name, "")
        self._start_opening(opening)

    def _start_opening(self, opening: object) -> None:
        if self._opening is not None:
            self._opening.cancel()
        self._notice.hide()
        self._opening = self.submit(opening, self._opened, self._open_failed)

    def _opened(self, opened: Opened) -> None:
        profile = opened.profile
        engine = self.context.workbench.engines.get(profile.engine.id)
        version = opened.install.version if opened.install is not None else profile.engine.version
        options = () if engine is None else engine.options(version)
        self._fresh = profile
        self._tried = False
        self.model = PlanModel(profile, options, opened.base)
        self.head.show_profile(self.model)
        self.head.show_install(opened.install, engine.name if engine else profile.engine.id)
        self._fill()
        self._go_to_setting()

    def _open_failed(self, error: Exception) -> None:
        self.model = None
        self.form.clear()
        self._notice.tell_error(error)
        self._render()

    def _fill(self) -> None:
        """All parts that depend on the mode."""
        if self.model is None:
            return
        expert = self._expert.isChecked()
        used = self.model.profile.settings
        groups = group_options(self.model.options.values(), expert=expert, used=used)
        shown = [o.id for options in groups.values() for o in options]
        texts = {name: self.model.setting(name) for name in shown}
        self.form.build(groups, texts, searchable=expert)
        self.env.fill([(r.name, r.value, r.reason) for r in self.model.env_rows])
        self.extra.fill([(r.key, r.text) for r in self.model.extra_rows])
        self._render()

    def _mode_changed(self, expert: bool) -> None:
        self.context.settings.set_flag(EXPERT_FLAG, expert)
        self._fill()

    def _engine_chosen(self, engine_id: str) -> None:
        if self.model is not None and self.model.base is None:
            profile = self.model.profile
            self._start_opening(
                new_profile(self.context.workbench, engine_id, profile.name, profile.model.path)
            )

    def _setting_edited(self, option_id: str, text: str) -> None:
        if self.model is not None:
            self.model.set_setting(option_id, text)
            self._edited()

    def _chosen(self, option_id: str, text: str) -> None:
        """The memory part changes a setting, as if it were typed."""
        if self.model is None or option_id not in self.model.options:
            return
        field = self.form.fields.get(option_id)
        if field is not None:
            field.set_text(text)
        else:
            self._setting_edited(option_id, text)

    def _env_edited(self) -> None:
        if self.model is not None:
            self.model.env_rows = [EnvRow(*cells) for cells in self.env.rows()]
            self._edited()

    def _extra_edited(self) -> None:
        if self.model is not None:
            self.model.extra_rows = [ExtraRow(*cells) for cells in self.extra.rows()]
            self._edited()

    def _edited(self) -> None:
        if self._notice.tone == "ok":
            self._notice.hide()
        self._render()

    def faults(self) -> dict[str, tuple[Message, ...]]:
        """All faults of what is typed, by field path."""
        if self.model is None:
            return {}
        profile, typed = self.model.build()
        found = merge_errors(typed, self.context.workbench.profiles.validate(profile))
        if not self._tried and self.model.base is None and not profile.model.path:
            found.pop("model.path", None)  # nobody is told off before having chosen
        return found

    def _render(self) -> None:
        expert = self._expert.isChecked()
        self.head.set_expert(expert)
        model = self.model
        self.memory.show_profile(None if model is None else model.build()[0])
        for part in (self.head, self.form):
            part.setEnabled(model is not None)
        for part in (self.env, self.extra):
            part.setVisible(expert and model is not None)
        dirty = self.dirty
        self._render_title(dirty)
        faults = self.faults()
        self._show_faults(faults)
        if model is not None:
            for name, field in self.form.fields.items():
                field.label.set_changed(model.base is not None and model.changed(name))
        new = model is not None and model.base is None
        self._save.setEnabled(model is not None and (dirty or new) and not self._saving)
        self._save_as.setVisible(model is not None and not new)
        self._save_as.setEnabled(not self._saving)
        self._revert.setEnabled(dirty and not self._saving)
        self._show.setEnabled(bool(model and model.profile.model.path) and not faults)

    def _render_title(self, dirty: bool) -> None:
        model = self.model
        if model is None:
            self._headline.show_text(N_("Plan"))
            self._state.show_text("")
        elif model.base is None:
            self._headline.show_text(N_("New profile"))
            self._state.show_text(N_("Choose a model, look over the settings, then save."))
        else:
            self._headline.show_text(message("Profile {name}", name=model.profile.name))
            self._state.show_text(N_("Changed, not saved yet") if dirty else N_("Saved"))
        self._state.set_tone("warn" if dirty and model and model.base else "muted")

    def _show_faults(self, faults: dict[str, tuple[Message, ...]]) -> None:
        """Each fault beside its field; those without a visible field in one place below."""
        by_option = _below(faults, "settings.")
        shown = {f"settings.{name}" for name in self.form.show_faults(by_option)}
        shown |= self.head.show_faults(faults)
        if self._expert.isChecked():
            for table, prefix in ((self.env, "env."), (self.extra, "extra.")):
                table.show_faults(_below(faults, prefix))
                shown |= {path for path in faults if path.startswith(prefix)}
        rest = [
            message("{field}: {fault}", field=path, fault=fault)
            for path, found in faults.items()
            if path not in shown
            for fault in found
        ]
        self._others.show_faults(rest)

    def save(self) -> None:
        """Save, unless something is faulty: then go to the first faulty field."""
        for table in (self.env, self.extra):
            table.commit()
        if self.model is None or self._saving:
            return
        self._tried = True
        if self._refused(self.faults()):
            return
        profile, _ = self.model.build()
        store, base = self.context.workbench.profiles, self.model.base
        if base is None:
            self._save_work(lambda: save_new(store, profile))
        else:
            self._save_work(lambda: store.save(profile, replaces=base) or profile)

    def save_as(self) -> None:
        """Keep the saved profile as it is and save the edits under another name."""
        if self.model is None or self._refused(self.faults()):
            return
        name = self._dialogs.ask_text(
            self,
            self.tr(N_("Save as new profile")),
            self.tr(N_("Name of the new profile")),
            copy_name(self.model.profile.name, ()),
        )
        if name:
            copied = self.model.retitled("", name)
            store = self.context.workbench.profiles
            self._save_work(lambda: save_new(store, copied))

    def revert(self) -> None:
        """Back to the saved version."""
        self.open(self._wanted or "")

    def show_launch(self) -> None:
        """What Start would run for the settings as they are typed."""
        if self.model is not None:
            dialog = LaunchDialog(self.context, self.model.build()[0], self)
            dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
            dialog.open()

    def _refused(self, faults: dict[str, Sequence[Message]]) -> bool:
        if not faults:
            return False
        self._show_faults(faults)
        count = sum(len(found) for found in faults.values())
        self._notice.tell(N_("Not saved. Faults to correct: {count}"), tone="fail", count=count)
        widget = self.head.first_faulty() or self.form.first_faulty()
        if widget is not None:
            widget.setFocus()
            self._scroll.ensureWidgetVisible(widget)
        return True

    def _save_work(self, work: object) -> None:
        self._saving = True
        self._render()
        self.submit(asyncio.to_thread(work), self._saved, self._save_failed)

    def _saved(self, profile: Profile) -> None:
        self._saving = False
        if self.model is not None:
            self.model.load(profile, profile)
            self._fresh = profile
            self.head.show_profile(self.model)
        self._wanted = profile.id
        self.context.settings.current_profile = profile.id
        text = N_("Saved. The running server keeps its old settings until it is restarted.")
        if not self._is_running(profile.id):
            text = N_("Saved.")
        navigate = self.context.navigate
        self._notice.tell(
            text,
            tone="ok",
            actions=(
                (N_("Check this machine for it"), lambda: navigate("preflight")),
                (N_("Go to Start"), lambda: navigate("server")),
            ),
        )
        self._fill()

    def _is_running(self, profile_id: str) -> bool:
        latest = self.context.live.machine
        server = latest.server if latest is not None else None
        return (
            server is not None and server.profile_id == profile_id and server.state in ACTIVE_STATES
        )

    def _save_failed(self, error: Exception) -> None:
        self._saving = False
        self._render()
        if isinstance(error, ConflictError) and self.model is not None and self.model.base:
            self._ask_about_conflict(error)
        elif isinstance(error, ProfileError):
            self._show_faults(merge_errors((), _distinct(error.errors)))
            self._notice.tell_error(error)
        else:
            self._notice.tell_error(error)

    def _ask_about_conflict(self, error: ConflictError) -> None:
        buttons = (
            self.tr(N_("Save my version")),
            self.tr(N_("Open the other version")),
            self.tr(N_("Keep editing")),
        )
        text = (
            self.tr(error.text)
            + "\n\n"
            + self.tr(N_("Saving your version keeps the other one as the previous version."))
        )
        answer = self._dialogs.choose(self, self.tr(N_("Changed meanwhile")), text, buttons, 2)
        if answer == 0 and self.model is not None:
            profile, _ = self.model.build()
            store = self.context.workbench.profiles
            self._save_work(lambda: overwrite(store, profile))
        elif answer == 1:
            self.open(self._wanted or "")

    def _other_chosen(self, _profile_id: str) -> None:
        if self.isVisible():
            self._follow()


def _below(faults: dict[str, tuple[Message, ...]], prefix: str) -> dict[str, Sequence[Message]]:
    return {
        path.removeprefix(prefix): found
        for path, found in faults.items()
        if path.startswith(prefix)
    }


def _distinct(errors: Sequence[FieldError]) -> tuple[FieldError, ...]:
    return tuple(dict.fromkeys(errors))
