# This is a generated file! Please edit source .ksy file and use kaitai-struct-compiler to rebuild
# type: ignore

import kaitaistruct
from kaitaistruct import KaitaiStruct, KaitaiStream, BytesIO
from chronotile_ksy import tiledb_update_commit
from chronotile_ksy import tiledb_delete_commit


if getattr(kaitaistruct, 'API_VERSION', (0, 9)) < (0, 11):
    raise Exception("Incompatible Kaitai Struct Python API: 0.11 or later is required, but you have %s" % (kaitaistruct.__version__))

class TiledbConsolidatedCommits(KaitaiStruct):
    """A `.con` file: commits one after the other, with no header, count or checksum.
    A file that was cut short between two records cannot be told from a whole one.
    
    Only the extension tells what follows a URI. What a URI must look like beyond
    that, and which time range the file's own name gives, is no matter of bytes.
    
    .. seealso::
       Source - https://github.com/TileDB-Inc/TileDB/blob/28aeb653d1c5d3e3b7a4b09b0e9f84a3c4d7605f/format_spec/consolidated_commits_file.md
    """
    def __init__(self, _io, _parent=None, _root=None):
        super(TiledbConsolidatedCommits, self).__init__(_io)
        self._parent = _parent
        self._root = _root or self
        self._read()

    def _read(self):
        self.records = []
        i = 0
        while not self._io.is_eof():
            self.records.append(TiledbConsolidatedCommits.CommitRecord(self._io, self, self._root))
            i += 1



    def _fetch_instances(self):
        pass
        for i in range(len(self.records)):
            pass
            self.records[i]._fetch_instances()


    class CommitRecord(KaitaiStruct):
        """One commit: the URI of its file, relative to the array, and for a delete
        or an update the whole of that file.
        
        .. seealso::
           Source - https://github.com/TileDB-Inc/TileDB/blob/28aeb653d1c5d3e3b7a4b09b0e9f84a3c4d7605f/format_spec/consolidated_commits_file.md
        """
        def __init__(self, _io, _parent=None, _root=None):
            super(TiledbConsolidatedCommits.CommitRecord, self).__init__(_io)
            self._parent = _parent
            self._root = _root
            self._read()

        def _read(self):
            self.uri = (self._io.read_bytes_term(10, False, True, True)).decode(u"UTF-8")
            _ = self.uri
            if not  ((self.extension == u".del") or (self.extension == u".upd") or (self.extension == u".wrt") or (self.extension[1:4] == u".ok")) :
                raise kaitaistruct.ValidationExprError(self.uri, self._io, u"/types/commit_record/seq/0")
            _on = self.extension
            if _on == u".del":
                pass
                self.body = TiledbConsolidatedCommits.DeleteRecord(self._io, self, self._root)
            elif _on == u".upd":
                pass
                self.body = TiledbConsolidatedCommits.UpdateRecord(self._io, self, self._root)
            else:
                pass
                self.body = TiledbConsolidatedCommits.WriteRecord(self._io, self, self._root)


        def _fetch_instances(self):
            pass
            _on = self.extension
            if _on == u".del":
                pass
                self.body._fetch_instances()
            elif _on == u".upd":
                pass
                self.body._fetch_instances()
            else:
                pass
                self.body._fetch_instances()

        @property
        def extension(self):
            """The last four characters."""
            if hasattr(self, '_m_extension'):
                return self._m_extension

            self._m_extension = (self.uri[len(self.uri) - 4:len(self.uri)] if len(self.uri) > 4 else u"none")
            return getattr(self, '_m_extension', None)


    class DeleteRecord(KaitaiStruct):
        """A delete, with the whole of its file.
        
        .. seealso::
           Source - https://github.com/TileDB-Inc/TileDB/blob/28aeb653d1c5d3e3b7a4b09b0e9f84a3c4d7605f/format_spec/consolidated_commits_file.md
        """
        def __init__(self, _io, _parent=None, _root=None):
            super(TiledbConsolidatedCommits.DeleteRecord, self).__init__(_io)
            self._parent = _parent
            self._root = _root
            self._read()

        def _read(self):
            self.len_tile = self._io.read_u8le()
            if not self.len_tile <= self._io.size() - self._io.pos():
                raise kaitaistruct.ValidationGreaterThanError(self._io.size() - self._io.pos(), self.len_tile, self._io, u"/types/delete_record/seq/0")
            self._raw_tile = self._io.read_bytes(self.len_tile)
            _io__raw_tile = KaitaiStream(BytesIO(self._raw_tile))
            self.tile = TiledbConsolidatedCommits.DeleteTile(_io__raw_tile, self, self._root)


        def _fetch_instances(self):
            pass
            self.tile._fetch_instances()


    class DeleteTile(KaitaiStruct):
        """The bytes of a `.del` file. They are parsed apart from the record, so
        that a damaged tile hides no other record.
        
        .. seealso::
           Source - https://github.com/TileDB-Inc/TileDB/blob/28aeb653d1c5d3e3b7a4b09b0e9f84a3c4d7605f/format_spec/delete_commit_file.md
        """
        def __init__(self, _io, _parent=None, _root=None):
            super(TiledbConsolidatedCommits.DeleteTile, self).__init__(_io)
            self._parent = _parent
            self._root = _root
            self._read()

        def _read(self):
            self.raw = self._io.read_bytes_full()


        def _fetch_instances(self):
            pass
            _ = self.commit
            if hasattr(self, '_m_commit'):
                pass
                self._m_commit._fetch_instances()


        @property
        def commit(self):
            if hasattr(self, '_m_commit'):
                return self._m_commit

            _pos = self._io.pos()
            self._io.seek(0)
            self._m_commit = tiledb_delete_commit.TiledbDeleteCommit(self._io)
            self._io.seek(_pos)
            return getattr(self, '_m_commit', None)


    class UpdateRecord(KaitaiStruct):
        """An update, with the whole of its file.
        
        .. seealso::
           Source - https://github.com/TileDB-Inc/TileDB/blob/28aeb653d1c5d3e3b7a4b09b0e9f84a3c4d7605f/format_spec/consolidated_commits_file.md
        """
        def __init__(self, _io, _parent=None, _root=None):
            super(TiledbConsolidatedCommits.UpdateRecord, self).__init__(_io)
            self._parent = _parent
            self._root = _root
            self._read()

        def _read(self):
            self.len_tile = self._io.read_u8le()
            if not self.len_tile <= self._io.size() - self._io.pos():
                raise kaitaistruct.ValidationGreaterThanError(self._io.size() - self._io.pos(), self.len_tile, self._io, u"/types/update_record/seq/0")
            self._raw_tile = self._io.read_bytes(self.len_tile)
            _io__raw_tile = KaitaiStream(BytesIO(self._raw_tile))
            self.tile = TiledbConsolidatedCommits.UpdateTile(_io__raw_tile, self, self._root)


        def _fetch_instances(self):
            pass
            self.tile._fetch_instances()


    class UpdateTile(KaitaiStruct):
        """The bytes of a `.upd` file, parsed apart from the record.
        
        .. seealso::
           Source - https://github.com/TileDB-Inc/TileDB/blob/28aeb653d1c5d3e3b7a4b09b0e9f84a3c4d7605f/format_spec/update_commit_file.md
        """
        def __init__(self, _io, _parent=None, _root=None):
            super(TiledbConsolidatedCommits.UpdateTile, self).__init__(_io)
            self._parent = _parent
            self._root = _root
            self._read()

        def _read(self):
            self.raw = self._io.read_bytes_full()


        def _fetch_instances(self):
            pass
            _ = self.commit
            if hasattr(self, '_m_commit'):
                pass
                self._m_commit._fetch_instances()


        @property
        def commit(self):
            if hasattr(self, '_m_commit'):
                return self._m_commit

            _pos = self._io.pos()
            self._io.seek(0)
            self._m_commit = tiledb_update_commit.TiledbUpdateCommit(self._io)
            self._io.seek(_pos)
            return getattr(self, '_m_commit', None)


    class WriteRecord(KaitaiStruct):
        """A fragment that was committed; nothing follows its URI.
        
        .. seealso::
           Source - https://github.com/TileDB-Inc/TileDB/blob/28aeb653d1c5d3e3b7a4b09b0e9f84a3c4d7605f/format_spec/consolidated_commits_file.md#fragment-commit
        """
        def __init__(self, _io, _parent=None, _root=None):
            super(TiledbConsolidatedCommits.WriteRecord, self).__init__(_io)
            self._parent = _parent
            self._root = _root
            self._read()

        def _read(self):
            pass


        def _fetch_instances(self):
            pass



