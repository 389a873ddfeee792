# This is a generated file! Please edit source .ksy file and use kaitai-struct-compiler to rebuild
# type: ignore

import kaitaistruct
from kaitaistruct import KaitaiStruct, KaitaiStream, BytesIO


if getattr(kaitaistruct, 'API_VERSION', (0, 9)) < (0, 11):
    raise Exception("Incompatible Kaitai Struct Python API: 0.11 or later is required, but you have %s" % (kaitaistruct.__version__))

class TiledbVacuumFile(KaitaiStruct):
    """A `.vac` file: fragments (in `__meta`, metadata files) that were consolidated
    into another and may be removed. From version 19 on a line is relative to the
    array and starts with a slash; before, it is an absolute URI, of which only
    the end still holds once the array has moved.
    
    .. seealso::
       Source - https://github.com/TileDB-Inc/TileDB/blob/28aeb653d1c5d3e3b7a4b09b0e9f84a3c4d7605f/format_spec/vacuum_file.md
    """
    def __init__(self, _io, _parent=None, _root=None):
        super(TiledbVacuumFile, self).__init__(_io)
        self._parent = _parent
        self._root = _root or self
        self._read()

    def _read(self):
        self.entries = []
        i = 0
        while not self._io.is_eof():
            self.entries.append(TiledbVacuumFile.VacuumedItem(self._io, self, self._root))
            i += 1



    def _fetch_instances(self):
        pass
        for i in range(len(self.entries)):
            pass
            self.entries[i]._fetch_instances()


    class VacuumedItem(KaitaiStruct):
        """One fragment or metadata file.
        
        .. seealso::
           Source - https://github.com/TileDB-Inc/TileDB/blob/28aeb653d1c5d3e3b7a4b09b0e9f84a3c4d7605f/format_spec/vacuum_file.md
        """
        def __init__(self, _io, _parent=None, _root=None):
            super(TiledbVacuumFile.VacuumedItem, self).__init__(_io)
            self._parent = _parent
            self._root = _root
            self._read()

        def _read(self):
            self.uri = (self._io.read_bytes_term(10, False, True, True)).decode(u"UTF-8")
            _ = self.uri
            if not len(_) > 0:
                raise kaitaistruct.ValidationExprError(self.uri, self._io, u"/types/vacuumed_item/seq/0")


        def _fetch_instances(self):
            pass



