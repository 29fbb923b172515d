; Twinrig's installer: for one user, without administrator rights, from files listed in LISTS.
; Run by installer/build.py, which defines VERSION, STAGE, OUT, LISTS, APP_ID and COMPRESSION.
Unicode true
Target amd64-unicode
!if "${COMPRESSION}" == "lzma"
  SetCompressor /SOLID lzma
  SetCompressorDictSize 64
!else
  SetCompressor zlib
!endif
ManifestDPIAware true
ManifestSupportedOS Win10
RequestExecutionLevel user
Name "Twinrig"
OutFile "${OUT}"
BrandingText "Twinrig ${VERSION}"
InstallDir "$LOCALAPPDATA\Programs\Twinrig"
InstallDirRegKey HKCU "Software\Twinrig" "InstallDir"
AllowRootDirInstall false

VIProductVersion "${VERSION}.0"
VIFileVersion "${VERSION}.0"
VIAddVersionKey "ProductName" "Twinrig"
VIAddVersionKey "FileDescription" "Twinrig ${VERSION}, installer for one user"
VIAddVersionKey "FileVersion" "${VERSION}"
VIAddVersionKey "ProductVersion" "${VERSION}"
VIAddVersionKey "LegalCopyright" "The Twinrig authors, MIT licence"

!include MUI2.nsh
!include LogicLib.nsh
!include FileFunc.nsh
!include Sections.nsh
!include Win\COM.nsh
!include Win\Propkey.nsh
!include "${LISTS}"
!include "${TEXTS}"

Var Updating ; 1 while a newer version is being put in place of this one
Var DeletingData ; 1 when profiles, settings and keys are to go too

!define UNINSTALL_KEY "Software\Microsoft\Windows\CurrentVersion\Uninstall\Twinrig"
!define RUN_KEY "Software\Microsoft\Windows\CurrentVersion\Run"
!define SHORTCUT "$SMPROGRAMS\Twinrig.lnk"
!define PYTHONW "$INSTDIR\python\pythonw.exe"

!define MUI_ICON "${STAGE}/twinrig.ico"
!define MUI_UNICON "${STAGE}/twinrig.ico"
!define MUI_ABORTWARNING
!insertmacro MUI_PAGE_LICENSE "${STAGE}/licences/LICENSE.txt"
!insertmacro MUI_PAGE_DIRECTORY
!insertmacro MUI_PAGE_COMPONENTS
!insertmacro MUI_PAGE_INSTFILES
!define MUI_FINISHPAGE_RUN "${PYTHONW}"
!define MUI_FINISHPAGE_RUN_PARAMETERS "-m twinrig"
!insertmacro MUI_PAGE_FINISH
!insertmacro MUI_UNPAGE_CONFIRM
!insertmacro MUI_UNPAGE_COMPONENTS
!insertmacro MUI_UNPAGE_INSTFILES
!insertmacro MUI_LANGUAGE "English"
!insertmacro MUI_LANGUAGE "Japanese"
!insertmacro TWINRIG_TEXTS

; Stops what runs from $INSTDIR. In: options of "twinrig withdraw" as a text. Out: $0 = 0 or why not.
!macro WITHDRAW options
  StrCpy $0 0
  ${If} ${FileExists} "${PYTHONW}"
    ClearErrors
    ExecWait '"${PYTHONW}" -m twinrig withdraw ${options}' $0
    ${If} ${Errors}
      StrCpy $0 0 ; Python itself is damaged: nothing of it can be running
    ${EndIf}
  ${EndIf}
!macroend

; Start menu entry with the identity that the panel gives itself, so that they share one button.
Function MakeShortcut
  !insertmacro ComHlpr_CreateInProcInstance ${CLSID_ShellLink} ${IID_IShellLink} r0 ""
  ${If} $0 P= 0
    CreateShortcut "${SHORTCUT}" "${PYTHONW}" "-m twinrig" "$INSTDIR\twinrig.ico" 0
    Return
  ${EndIf}
  ${IShellLink::SetPath} $0 '("${PYTHONW}").r1'
  ${IShellLink::SetArguments} $0 '("-m twinrig").r1'
  ${IShellLink::SetWorkingDirectory} $0 '("$PROFILE").r1'
  ${IShellLink::SetDescription} $0 '("$(SHORTCUT_TIP)").r1'
  ${IShellLink::SetIconLocation} $0 '("$INSTDIR\twinrig.ico", 0).r1'
  ${IUnknown::QueryInterface} $0 '("${IID_IPropertyStore}",.r1)'
  ${If} $1 P<> 0
    System::Call '*${SYSSTRUCT_PROPERTYKEY}(${PKEY_AppUserModel_ID})p.r2'
    System::Call '*${SYSSTRUCT_PROPVARIANT}(${VT_LPWSTR},,&w${NSIS_MAX_STRLEN} "")p.r3'
    System::Call 'ole32::CoTaskMemAlloc(p 256)p.r4'
    System::Call '*$4(&w100 "${APP_ID}")'
    System::Call '*$3${SYSSTRUCT_PROPVARIANT}(${VT_LPWSTR},,r4)'
    ${IPropertyStore::SetValue} $1 '($2,$3)'
    ${IPropertyStore::Commit} $1 ""
    System::Call 'ole32::CoTaskMemFree(p r4)'
    System::Free $2
    System::Free $3
    ${IUnknown::Release} $1 ""
  ${EndIf}
  ${IUnknown::QueryInterface} $0 '("${IID_IPersistFile}",.r1)'
  ${If} $1 P<> 0
    ${IPersistFile::Save} $1 '("${SHORTCUT}",1)'
    ${IUnknown::Release} $1 ""
  ${EndIf}
  ${IUnknown::Release} $0 ""
FunctionEnd

Section "Twinrig" SectionProgram
  SectionIn RO
  ; An older version removes exactly what it brought; its tasks stay, as they start the new one.
  ${If} ${FileExists} "$INSTDIR\Uninstall.exe"
    ClearErrors
    ExecWait '"$INSTDIR\Uninstall.exe" /S /UPDATE _?=$INSTDIR' $0
    ${If} ${Errors}
    ${OrIf} $0 <> 0
      MessageBox MB_ICONSTOP "$(OLD_STAYS)" /SD IDOK
      SetErrorLevel 2
      Abort
    ${EndIf}
  ${EndIf}
  ClearErrors
  !insertmacro INSTALL_FILES
  ${If} ${Errors}
    MessageBox MB_ICONSTOP "$(CANNOT_WRITE)" /SD IDOK
    SetErrorLevel 2
    Abort
  ${EndIf}
  SetOutPath "$INSTDIR"
  WriteUninstaller "$INSTDIR\Uninstall.exe"
  Call MakeShortcut
  WriteRegStr HKCU "Software\Twinrig" "InstallDir" "$INSTDIR"
  WriteRegStr HKCU "${UNINSTALL_KEY}" "DisplayName" "Twinrig"
  WriteRegStr HKCU "${UNINSTALL_KEY}" "DisplayVersion" "${VERSION}"
  WriteRegStr HKCU "${UNINSTALL_KEY}" "DisplayIcon" "$INSTDIR\twinrig.ico"
  WriteRegStr HKCU "${UNINSTALL_KEY}" "Publisher" "The Twinrig authors"
  WriteRegStr HKCU "${UNINSTALL_KEY}" "InstallLocation" "$INSTDIR"
  WriteRegStr HKCU "${UNINSTALL_KEY}" "UninstallString" '"$INSTDIR\Uninstall.exe"'
  WriteRegStr HKCU "${UNINSTALL_KEY}" "QuietUninstallString" '"$INSTDIR\Uninstall.exe" /S'
  WriteRegDWORD HKCU "${UNINSTALL_KEY}" "EstimatedSize" ${SIZE_KIB}
  WriteRegDWORD HKCU "${UNINSTALL_KEY}" "NoModify" 1
  WriteRegDWORD HKCU "${UNINSTALL_KEY}" "NoRepair" 1
SectionEnd

Section /o "$(AUTOSTART)" SectionAutostart
  WriteRegStr HKCU "${RUN_KEY}" "Twinrig" '"${PYTHONW}" -m twinrig --hidden'
SectionEnd

!insertmacro MUI_FUNCTION_DESCRIPTION_BEGIN
  !insertmacro MUI_DESCRIPTION_TEXT ${SectionProgram} "$(PROGRAM_TIP)"
  !insertmacro MUI_DESCRIPTION_TEXT ${SectionAutostart} "$(AUTOSTART_TIP)"
!insertmacro MUI_FUNCTION_DESCRIPTION_END

Function .onInit
  ${GetParameters} $R0
  ${GetOptions} $R0 "/AUTOSTART" $R1
  ${IfNot} ${Errors}
    !insertmacro SelectSection ${SectionAutostart}
  ${EndIf}
FunctionEnd

; The sections of the uninstaller run in this order: first what needs the program itself.
Section /o "un.$(UNDO)" SectionUndo
  !insertmacro WITHDRAW "--undo-changes"
  ${If} $0 <> 0
    MessageBox MB_YESNO|MB_ICONEXCLAMATION "$(UNDO_FAILED)" /SD IDNO IDYES undone
    SetErrorLevel 2
    Abort
    undone:
  ${EndIf}
SectionEnd

Section /o "un.$(DELETE_DATA)" SectionData
  StrCpy $DeletingData 1
SectionEnd

Section "un.Twinrig" SectionRemove
  SectionIn RO
  ${If} $Updating == 1
    !insertmacro WITHDRAW "--keep-tasks"
  ${ElseIf} $DeletingData == 1
    !insertmacro WITHDRAW "--forget-keys"
  ${Else}
    !insertmacro WITHDRAW ""
  ${EndIf}
  ${If} $0 <> 0
    MessageBox MB_ICONSTOP "$(STILL_RUNS)" /SD IDOK
    SetErrorLevel 2
    Abort
  ${EndIf}
  !insertmacro REMOVE_FILES
  Delete "$INSTDIR\Uninstall.exe"
  SetOutPath "$TEMP"
  RMDir "$INSTDIR"
  ${If} $Updating <> 1
    Delete "${SHORTCUT}"
    DeleteRegValue HKCU "${RUN_KEY}" "Twinrig"
    DeleteRegKey HKCU "${UNINSTALL_KEY}"
    DeleteRegKey HKCU "Software\Twinrig"
  ${EndIf}
  ${If} $DeletingData == 1
    RMDir /r "$LOCALAPPDATA\twinrig"
  ${EndIf}
SectionEnd

!insertmacro MUI_UNFUNCTION_DESCRIPTION_BEGIN
  !insertmacro MUI_DESCRIPTION_TEXT ${SectionUndo} "$(UNDO_TIP)"
  !insertmacro MUI_DESCRIPTION_TEXT ${SectionRemove} "$(REMOVE_TIP)"
  !insertmacro MUI_DESCRIPTION_TEXT ${SectionData} "$(DELETE_DATA_TIP)"
!insertmacro MUI_UNFUNCTION_DESCRIPTION_END

Function un.onInit
  StrCpy $Updating 0
  StrCpy $DeletingData 0
  ${GetParameters} $R0
  ClearErrors
  ${GetOptions} $R0 "/UPDATE" $R1
  ${IfNot} ${Errors}
    StrCpy $Updating 1
  ${EndIf}
  ClearErrors
  ${GetOptions} $R0 "/UNDO" $R1
  ${IfNot} ${Errors}
    !insertmacro SelectSection ${SectionUndo}
  ${EndIf}
  ClearErrors
  ${GetOptions} $R0 "/DELETEDATA" $R1
  ${IfNot} ${Errors}
    !insertmacro SelectSection ${SectionData}
  ${EndIf}
FunctionEnd
