# This is a generated file! Please edit source .ksy file and use kaitai-struct-compiler to rebuild
# type: ignore

import kaitaistruct
from kaitaistruct import KaitaiStruct, KaitaiStream, BytesIO
from enum import IntEnum
import collections


if getattr(kaitaistruct, 'API_VERSION', (0, 9)) < (0, 11):
    raise Exception("Incompatible Kaitai Struct Python API: 0.11 or later is required, but you have %s" % (kaitaistruct.__version__))

class TiledbOperand(KaitaiStruct):
    """Raw bytes of the field's type, which only the array's schema tells: an
    attribute or a dimension; for an enumeration the index of the label; for a
    date or time an i64 in the field's unit.
    
    All but `raw` is a guess, for people who look at a tree. Printable bytes are
    text first: four or eight of them are text, one or two may also be a number.
    Other values of 1, 2, 4 or 8 bytes are integers, all others are text.
    
    .. seealso::
       Source - https://github.com/TileDB-Inc/TileDB/blob/28aeb653d1c5d3e3b7a4b09b0e9f84a3c4d7605f/format_spec/delete_commit_file.md
    """

    class Shapes(IntEnum):
        text = 0
        s1 = 1
        s2 = 2
        short_text = 3
        s4 = 4
        s8 = 8
    SEQ_FIELDS = ["raw"]
    def __init__(self, _io, _parent=None, _root=None):
        super(TiledbOperand, self).__init__(_io)
        self._parent = _parent
        self._root = _root or self
        self._debug = collections.defaultdict(dict)

    def _read(self):
        self._debug['raw']['start'] = self._io.pos()
        self.raw = self._io.read_bytes_full()
        self._debug['raw']['end'] = self._io.pos()


    def _fetch_instances(self):
        pass
        _ = self.guess
        if hasattr(self, '_m_guess'):
            pass
            _on = self.shape
            if _on == TiledbOperand.Shapes.s1:
                pass
                self._m_guess._fetch_instances()
            elif _on == TiledbOperand.Shapes.s2:
                pass
                self._m_guess._fetch_instances()
            elif _on == TiledbOperand.Shapes.s4:
                pass
                self._m_guess._fetch_instances()
            elif _on == TiledbOperand.Shapes.s8:
                pass
                self._m_guess._fetch_instances()
            elif _on == TiledbOperand.Shapes.short_text:
                pass
                self._m_guess._fetch_instances()
            else:
                pass
                self._m_guess._fetch_instances()


    class GuessS1(KaitaiStruct):
        """A value of one byte, if it is an integer.
        
        .. seealso::
           Source - https://github.com/TileDB-Inc/TileDB/blob/28aeb653d1c5d3e3b7a4b09b0e9f84a3c4d7605f/format_spec/delete_commit_file.md
        """
        SEQ_FIELDS = ["value"]
        def __init__(self, _io, _parent=None, _root=None):
            super(TiledbOperand.GuessS1, self).__init__(_io)
            self._parent = _parent
            self._root = _root
            self._debug = collections.defaultdict(dict)

        def _read(self):
            self._debug['value']['start'] = self._io.pos()
            self.value = self._io.read_s1()
            self._debug['value']['end'] = self._io.pos()


        def _fetch_instances(self):
            pass


    class GuessS2(KaitaiStruct):
        """A value of two bytes, if it is an integer.
        
        .. seealso::
           Source - https://github.com/TileDB-Inc/TileDB/blob/28aeb653d1c5d3e3b7a4b09b0e9f84a3c4d7605f/format_spec/delete_commit_file.md
        """
        SEQ_FIELDS = ["value"]
        def __init__(self, _io, _parent=None, _root=None):
            super(TiledbOperand.GuessS2, self).__init__(_io)
            self._parent = _parent
            self._root = _root
            self._debug = collections.defaultdict(dict)

        def _read(self):
            self._debug['value']['start'] = self._io.pos()
            self.value = self._io.read_s2le()
            self._debug['value']['end'] = self._io.pos()


        def _fetch_instances(self):
            pass


    class GuessS4(KaitaiStruct):
        """A value of four bytes, if it is an integer.
        
        .. seealso::
           Source - https://github.com/TileDB-Inc/TileDB/blob/28aeb653d1c5d3e3b7a4b09b0e9f84a3c4d7605f/format_spec/delete_commit_file.md
        """
        SEQ_FIELDS = ["value"]
        def __init__(self, _io, _parent=None, _root=None):
            super(TiledbOperand.GuessS4, self).__init__(_io)
            self._parent = _parent
            self._root = _root
            self._debug = collections.defaultdict(dict)

        def _read(self):
            self._debug['value']['start'] = self._io.pos()
            self.value = self._io.read_s4le()
            self._debug['value']['end'] = self._io.pos()


        def _fetch_instances(self):
            pass


    class GuessS8(KaitaiStruct):
        """A value of eight bytes, if it is an integer. It is put together from two
        halves: the JavaScript runtime's own s8 is off by 2^32 for some negative
        values.
        
        .. seealso::
           Source - https://github.com/TileDB-Inc/TileDB/blob/28aeb653d1c5d3e3b7a4b09b0e9f84a3c4d7605f/format_spec/delete_commit_file.md
        """
        SEQ_FIELDS = ["low", "high"]
        def __init__(self, _io, _parent=None, _root=None):
            super(TiledbOperand.GuessS8, self).__init__(_io)
            self._parent = _parent
            self._root = _root
            self._debug = collections.defaultdict(dict)

        def _read(self):
            self._debug['low']['start'] = self._io.pos()
            self.low = self._io.read_u4le()
            self._debug['low']['end'] = self._io.pos()
            self._debug['high']['start'] = self._io.pos()
            self.high = self._io.read_s4le()
            self._debug['high']['end'] = self._io.pos()


        def _fetch_instances(self):
            pass

        @property
        def value(self):
            if hasattr(self, '_m_value'):
                return self._m_value

            self._m_value = self.high * 4294967296 + self.low
            return getattr(self, '_m_value', None)


    class GuessShortText(KaitaiStruct):
        """One or two printable bytes, which are as often a small integer.
        
        .. seealso::
           Source - https://github.com/TileDB-Inc/TileDB/blob/28aeb653d1c5d3e3b7a4b09b0e9f84a3c4d7605f/format_spec/delete_commit_file.md
        """
        SEQ_FIELDS = ["value"]
        def __init__(self, _io, _parent=None, _root=None):
            super(TiledbOperand.GuessShortText, self).__init__(_io)
            self._parent = _parent
            self._root = _root
            self._debug = collections.defaultdict(dict)

        def _read(self):
            self._debug['value']['start'] = self._io.pos()
            self.value = self._io.read_bytes_full()
            self._debug['value']['end'] = self._io.pos()


        def _fetch_instances(self):
            pass

        @property
        def number(self):
            if hasattr(self, '_m_number'):
                return self._m_number

            self._m_number = (KaitaiStream.byte_array_index(self.value, 0) if len(self.value) == 1 else KaitaiStream.byte_array_index(self.value, 0) + 256 * KaitaiStream.byte_array_index(self.value, 1))
            return getattr(self, '_m_number', None)


    class GuessText(KaitaiStruct):
        """A value that is text, or of a width that no integer has.
        
        .. seealso::
           Source - https://github.com/TileDB-Inc/TileDB/blob/28aeb653d1c5d3e3b7a4b09b0e9f84a3c4d7605f/format_spec/delete_commit_file.md
        """
        SEQ_FIELDS = ["value"]
        def __init__(self, _io, _parent=None, _root=None):
            super(TiledbOperand.GuessText, self).__init__(_io)
            self._parent = _parent
            self._root = _root
            self._debug = collections.defaultdict(dict)

        def _read(self):
            self._debug['value']['start'] = self._io.pos()
            self.value = self._io.read_bytes_full()
            self._debug['value']['end'] = self._io.pos()


        def _fetch_instances(self):
            pass


    @property
    def guess(self):
        if hasattr(self, '_m_guess'):
            return self._m_guess

        _pos = self._io.pos()
        self._io.seek(0)
        self._debug['_m_guess']['start'] = self._io.pos()
        _on = self.shape
        if _on == TiledbOperand.Shapes.s1:
            pass
            self._m_guess = TiledbOperand.GuessS1(self._io, self, self._root)
            self._m_guess._read()
        elif _on == TiledbOperand.Shapes.s2:
            pass
            self._m_guess = TiledbOperand.GuessS2(self._io, self, self._root)
            self._m_guess._read()
        elif _on == TiledbOperand.Shapes.s4:
            pass
            self._m_guess = TiledbOperand.GuessS4(self._io, self, self._root)
            self._m_guess._read()
        elif _on == TiledbOperand.Shapes.s8:
            pass
            self._m_guess = TiledbOperand.GuessS8(self._io, self, self._root)
            self._m_guess._read()
        elif _on == TiledbOperand.Shapes.short_text:
            pass
            self._m_guess = TiledbOperand.GuessShortText(self._io, self, self._root)
            self._m_guess._read()
        else:
            pass
            self._m_guess = TiledbOperand.GuessText(self._io, self, self._root)
            self._m_guess._read()
        self._debug['_m_guess']['end'] = self._io.pos()
        self._io.seek(_pos)
        return getattr(self, '_m_guess', None)

    @property
    def is_printable(self):
        """Whether the first eight bytes are printable ASCII."""
        if hasattr(self, '_m_is_printable'):
            return self._m_is_printable

        self._m_is_printable =  (( ((len(self.raw) < 1) or ( ((KaitaiStream.byte_array_index(self.raw, 0) >= 32) and (KaitaiStream.byte_array_index(self.raw, 0) <= 126)) )) ) and ( ((len(self.raw) < 2) or ( ((KaitaiStream.byte_array_index(self.raw, 1) >= 32) and (KaitaiStream.byte_array_index(self.raw, 1) <= 126)) )) ) and ( ((len(self.raw) < 3) or ( ((KaitaiStream.byte_array_index(self.raw, 2) >= 32) and (KaitaiStream.byte_array_index(self.raw, 2) <= 126)) )) ) and ( ((len(self.raw) < 4) or ( ((KaitaiStream.byte_array_index(self.raw, 3) >= 32) and (KaitaiStream.byte_array_index(self.raw, 3) <= 126)) )) ) and ( ((len(self.raw) < 5) or ( ((KaitaiStream.byte_array_index(self.raw, 4) >= 32) and (KaitaiStream.byte_array_index(self.raw, 4) <= 126)) )) ) and ( ((len(self.raw) < 6) or ( ((KaitaiStream.byte_array_index(self.raw, 5) >= 32) and (KaitaiStream.byte_array_index(self.raw, 5) <= 126)) )) ) and ( ((len(self.raw) < 7) or ( ((KaitaiStream.byte_array_index(self.raw, 6) >= 32) and (KaitaiStream.byte_array_index(self.raw, 6) <= 126)) )) ) and ( ((len(self.raw) < 8) or ( ((KaitaiStream.byte_array_index(self.raw, 7) >= 32) and (KaitaiStream.byte_array_index(self.raw, 7) <= 126)) )) )) 
        return getattr(self, '_m_is_printable', None)

    @property
    def shape(self):
        if hasattr(self, '_m_shape'):
            return self._m_shape

        self._m_shape = ((TiledbOperand.Shapes.short_text if self.is_printable else TiledbOperand.Shapes.s1) if len(self.raw) == 1 else ((TiledbOperand.Shapes.short_text if self.is_printable else TiledbOperand.Shapes.s2) if len(self.raw) == 2 else ((TiledbOperand.Shapes.text if self.is_printable else TiledbOperand.Shapes.s4) if len(self.raw) == 4 else ((TiledbOperand.Shapes.text if self.is_printable else TiledbOperand.Shapes.s8) if len(self.raw) == 8 else TiledbOperand.Shapes.text))))
        return getattr(self, '_m_shape', None)


